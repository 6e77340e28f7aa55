-- Boundary checks: how much each check on the log looked at, and how much it found
-- One row per check. Concludes: where looked_at is above 0, found is 0 and unseen is 0, the log shows no fault of that kind;
-- boundary_faults lists what was found. Does not conclude anything where looked_at is 0, or of what was unseen (training rows
-- whose evidence could not be read, records that are no events). `audit boundary` adds what is not on the log: the
-- search of all bytes, the broker's rules and its denials.
-- param campaign: the campaign; the latest one when left out
WITH chosen AS (
    SELECT s.campaign FROM campaign_started s
    WHERE s.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign)) LIMIT 1
), looked AS (
    SELECT 1 AS place, 'crossings' AS "check", 'fields of boundary records' AS what,
           (SELECT count(*) FROM crossings x WHERE x.campaign IS NULL OR x.campaign = c.campaign) AS looked_at, 0 AS unseen
    FROM chosen c
    UNION ALL
    SELECT 2, 'small_reports', 'tracks in reports',
           (SELECT coalesce(sum(len(r.tracks)), 0) FROM evaluation_reported r WHERE r.campaign = c.campaign), 0 FROM chosen c
    UNION ALL
    SELECT 3, 'admitted_states', 'admissions',
           (SELECT count(*) FROM state_uses u WHERE u.campaign = c.campaign AND u.use = 'admitted'), 0 FROM chosen c
    UNION ALL
    SELECT 4, 'used_states', 'uses: planned, practised, trained on',
           (SELECT count(*) FROM state_uses u WHERE u.campaign = c.campaign AND u.use <> 'admitted'), 0 FROM chosen c
    UNION ALL
    SELECT 5, 'gate_fingerprints', 'uses of states with a verdict',
           (SELECT count(*) FROM state_uses u WHERE u.campaign = c.campaign AND u.cleared IS NOT NULL), 0 FROM chosen c
    UNION ALL
    SELECT 6, 'corpus', 'cold starts', (SELECT count(*) FROM corpus_uses u WHERE u.campaign = c.campaign), 0 FROM chosen c
    UNION ALL
    SELECT 7, 'lineage', 'training rows', (SELECT count(*) FROM training_lineage t WHERE t.campaign = c.campaign),
           (SELECT count(*) FROM training_lineage t
            WHERE t.campaign = c.campaign AND t.evidence_status IS DISTINCT FROM 'read') FROM chosen c
    UNION ALL
    SELECT 8, 'heldout_events', 'records on open topics',
           (SELECT count(*) FROM events e WHERE e.campaign = c.campaign)
           + (SELECT count(*) FROM undecodable u WHERE u.campaign IS NULL OR u.campaign = c.campaign),
           (SELECT count(*) FROM undecodable u
            WHERE (u.campaign IS NULL OR u.campaign = c.campaign) AND NOT EXISTS (
                SELECT 1 FROM declared_types d WHERE u.ce_type LIKE 'bat.' || d.type || '.v%' AND d.plane = 'heldout'))
    FROM chosen c
    UNION ALL
    SELECT 9, 'writers', 'events', (SELECT count(*) FROM events e WHERE e.campaign = c.campaign), 0 FROM chosen c
)
SELECT l."check", l.what, l.looked_at, count(f."check") AS found, l.unseen,
       first(f.fault || ': ' || coalesce(f.subject, '') || ' at ' || f.topic || '[' || f."partition" || ']@' || f."offset"
             ORDER BY f.topic, f."partition", f."offset", f.subject) AS example
FROM looked l CROSS JOIN chosen c
LEFT JOIN boundary_faults f ON f."check" = l."check" AND (f.campaign IS NULL OR f.campaign = c.campaign)
GROUP BY l.place, l."check", l.what, l.looked_at, l.unseen
ORDER BY l.place
