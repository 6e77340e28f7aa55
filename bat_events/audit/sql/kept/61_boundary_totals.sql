-- Per campaign and boundary check: how much it looked at, how much it found, and the first of that.
WITH chosen AS (
    SELECT DISTINCT campaign FROM campaign_started
), uses AS (
    SELECT campaign, state FROM planned_slots
    UNION ALL SELECT campaign, state FROM group_requested
    UNION ALL SELECT campaign, state FROM rollout_completed
    UNION ALL SELECT t.campaign, r.state
    FROM training_rows t JOIN rollout_completed r ON r.campaign = t.campaign AND r.rollout = t.rollout
), by_state AS (
    SELECT campaign, state, count(*) AS uses FROM uses GROUP BY campaign, state
), judged AS (
    SELECT DISTINCT campaign, state FROM leakage_verdict
), used AS (
    SELECT u.campaign, sum(u.uses)::BIGINT AS uses, (sum(u.uses) FILTER (j.state IS NOT NULL))::BIGINT AS judged
    FROM by_state u LEFT JOIN judged j ON j.campaign = u.campaign AND j.state = u.state GROUP BY u.campaign
), admitted AS (
    SELECT a.campaign, count(*) AS states, count(j.state) AS judged
    FROM state_admitted a LEFT JOIN judged j ON j.campaign = a.campaign AND j.state = a.state GROUP BY a.campaign
), trained AS (
    SELECT t.campaign, count(*) AS rows, count(*) FILTER (e.status IS DISTINCT FROM 'read') AS unread
    FROM training_rows t LEFT JOIN rollout_evidence e ON e.campaign = t.campaign AND e.rollout = t.rollout
    GROUP BY t.campaign
), events_of AS (
    SELECT campaign, sum(events)::BIGINT AS events FROM event_totals GROUP BY campaign
), not_events AS (
    SELECT c.campaign, count(*) AS records, count(*) FILTER (NOT EXISTS (
               SELECT 1 FROM declared_types d WHERE u.ce_type LIKE 'bat.' || d.type || '.v%' AND d.plane = 'heldout')) AS others
    FROM chosen c JOIN undecodable u ON u.campaign IS NULL OR u.campaign = c.campaign GROUP BY c.campaign
), looked AS (
    SELECT c.campaign, 1 AS place, 'crossings' AS "check", 'fields of boundary records' AS what,
           (SELECT count(*) FROM crossings x WHERE x.campaign IS NULL OR x.campaign = c.campaign) AS looked_at, 0 AS unseen
    FROM chosen c
    UNION ALL
    SELECT c.campaign, 2, 'small_reports', 'tracks in reports',
           (SELECT coalesce(sum(len(r.tracks)), 0) FROM evaluation_reported r WHERE r.campaign = c.campaign), 0 FROM chosen c
    UNION ALL
    SELECT c.campaign, 3, 'admitted_states', 'admissions', coalesce(a.states, 0), 0
    FROM chosen c LEFT JOIN admitted a ON a.campaign = c.campaign
    UNION ALL
    SELECT c.campaign, 4, 'used_states', 'uses: planned, practised, trained on', coalesce(u.uses, 0), 0
    FROM chosen c LEFT JOIN used u ON u.campaign = c.campaign
    UNION ALL
    SELECT c.campaign, 5, 'gate_fingerprints', 'uses of states with a verdict', coalesce(u.judged, 0) + coalesce(a.judged, 0), 0
    FROM chosen c LEFT JOIN used u ON u.campaign = c.campaign LEFT JOIN admitted a ON a.campaign = c.campaign
    UNION ALL
    SELECT c.campaign, 6, 'corpus', 'cold starts', (SELECT count(*) FROM corpus_uses u WHERE u.campaign = c.campaign), 0
    FROM chosen c
    UNION ALL
    SELECT c.campaign, 7, 'lineage', 'training rows', coalesce(t.rows, 0), coalesce(t.unread, 0)
    FROM chosen c LEFT JOIN trained t ON t.campaign = c.campaign
    UNION ALL
    SELECT c.campaign, 8, 'heldout_events', 'records on open topics', coalesce(e.events, 0) + coalesce(n.records, 0),
           coalesce(n.others, 0)
    FROM chosen c LEFT JOIN events_of e ON e.campaign = c.campaign LEFT JOIN not_events n ON n.campaign = c.campaign
    UNION ALL
    SELECT c.campaign, 9, 'writers', 'events', coalesce(e.events, 0), 0
    FROM chosen c LEFT JOIN events_of e ON e.campaign = c.campaign
), faults AS (
    SELECT campaign, "check", count(*) AS found,
           min({topic: topic, number: "partition", place: "offset", subject: subject, fault: fault}) AS first
    FROM boundary_faults GROUP BY campaign, "check"
), found AS (
    SELECT c.campaign, f."check", sum(f.found)::BIGINT AS found, min(f.first) AS first
    FROM chosen c JOIN faults f ON f.campaign IS NULL OR f.campaign = c.campaign GROUP BY c.campaign, f."check"
)
SELECT l.campaign, l.place, l."check", l.what, l.looked_at, coalesce(f.found, 0) AS found, l.unseen,
       f.first.fault || ': ' || coalesce(f.first.subject, '') || ' at '
           || f.first.topic || '[' || f.first.number || ']@' || f.first.place AS example
FROM looked l LEFT JOIN found f ON f.campaign = l.campaign AND f."check" = l."check"
