-- Boundary checks: how much each check on the log looked at, and how much it found
-- One row per check. Concludes: where looked_at is above 0, found is 0 and unseen is 0, the log shows no fault of that kind;
-- boundary_faults lists what was found. Does not conclude anything where looked_at is 0, or of what was unseen (training rows
-- whose evidence could not be read, records that are no events). `audit boundary` adds what is not on the log: the
-- search of all bytes, the broker's rules and its denials.
-- param campaign: the campaign; the latest one when left out
WITH chosen AS (
    SELECT s.campaign FROM campaign_started s
    WHERE s.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign)) LIMIT 1
), uses AS (
    SELECT p.campaign, p.state FROM planned_slots p
    UNION ALL SELECT q.campaign, q.state FROM group_requested q
    UNION ALL SELECT r.campaign, r.state FROM rollout_completed r
    UNION ALL SELECT t.campaign, r.state
    FROM training_rows t JOIN rollout_completed r ON r.campaign = t.campaign AND r.rollout = t.rollout
), by_state AS MATERIALIZED (
    SELECT u.campaign, u.state, count(*) AS uses FROM uses u JOIN chosen c ON c.campaign = u.campaign GROUP BY ALL
), judged AS MATERIALIZED (
    SELECT DISTINCT v.campaign, v.state FROM leakage_verdict v JOIN chosen c ON c.campaign = v.campaign
), trained AS MATERIALIZED (
    SELECT count(*) AS rows, count(*) FILTER (e.status IS DISTINCT FROM 'read') AS unread
    FROM training_rows t JOIN chosen c ON c.campaign = t.campaign
    LEFT JOIN rollout_evidence e ON e.campaign = t.campaign AND e.rollout = t.rollout
), looked AS (
    SELECT 1 AS place, 'crossings' AS "check", 'fields of boundary records' AS what,
           (SELECT count(*) FROM crossings x WHERE x.campaign IS NULL OR x.campaign = c.campaign) AS looked_at, 0 AS unseen
    FROM chosen c
    UNION ALL
    SELECT 2, 'small_reports', 'tracks in reports',
           (SELECT coalesce(sum(len(r.tracks)), 0) FROM evaluation_reported r WHERE r.campaign = c.campaign), 0 FROM chosen c
    UNION ALL
    SELECT 3, 'admitted_states', 'admissions',
           (SELECT count(*) FROM state_admitted a WHERE a.campaign = c.campaign), 0 FROM chosen c
    UNION ALL
    SELECT 4, 'used_states', 'uses: planned, practised, trained on',
           (SELECT coalesce(sum(u.uses), 0) FROM by_state u), 0 FROM chosen c
    UNION ALL
    SELECT 5, 'gate_fingerprints', 'uses of states with a verdict',
           (SELECT coalesce(sum(u.uses), 0) FROM by_state u SEMI JOIN judged j ON j.state = u.state)
           + (SELECT count(*) FROM state_admitted a SEMI JOIN judged j ON j.campaign = a.campaign AND j.state = a.state), 0
    FROM chosen c
    UNION ALL
    SELECT 6, 'corpus', 'cold starts', (SELECT count(*) FROM corpus_uses u WHERE u.campaign = c.campaign), 0 FROM chosen c
    UNION ALL
    SELECT 7, 'lineage', 'training rows', (SELECT t.rows FROM trained t), (SELECT t.unread FROM trained t) FROM chosen c
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
