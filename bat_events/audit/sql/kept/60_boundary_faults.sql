-- Everything that the boundary checks find on the log, one row each; `campaign` is NULL where the record names none.
-- Events are looked up for what was found only: a sound log's are not read for it. `number` counts a campaign's faults in the
-- order in which they are shown.
WITH uses AS MATERIALIZED (
    SELECT * FROM state_uses WHERE fault IS NOT NULL OR blind IS NOT NULL
), found AS MATERIALIZED (
    SELECT u.campaign, CASE WHEN u.use = 'admitted' THEN 'admitted_states' ELSE 'used_states' END AS "check",
           u.use || ', but ' || u.fault AS fault, u.state AS subject, u.event
    FROM uses u WHERE u.fault IS NOT NULL
    UNION ALL
    SELECT u.campaign, 'gate_fingerprints', u.use || ', but ' || u.blind, u.state, u.event
    FROM uses u WHERE u.blind IS NOT NULL
    UNION ALL
    SELECT c.campaign, 'corpus', 'trained on, but ' || coalesce(c.fault, c.blind), c.corpus, c.event
    FROM corpus_uses c WHERE coalesce(c.fault, c.blind) IS NOT NULL
    UNION ALL
    SELECT t.campaign, 'lineage', 'trained on, but its state, verdict, admission, rollout or reward is not on the log',
           t.rollout, t.step_event
    FROM training_lineage t WHERE NOT t.complete
    UNION ALL
    SELECT t.campaign, 'lineage', 'a receipt''s code is not what its digest says', t.rollout, r.event
    FROM training_lineage t JOIN receipts r ON r.event = t.rollout_event WHERE NOT r.code_follows
), wrong_writers AS MATERIALIZED (
    SELECT DISTINCT t.campaign, t.topic, t.type, t.source, t.logic, d.writer
    FROM event_totals t LEFT JOIN declared_topics d ON d.topic = t.topic
    WHERE d.topic IS NULL OR CASE WHEN d.writer = 'every service of its plane'
        THEN NOT EXISTS (SELECT 1 FROM declared_writers w WHERE w.topic = t.topic AND t.source = 'bat/' || w.writer)
        ELSE t.source <> 'bat/' || d.writer OR split_part(t.logic, '/', 1) <> d.writer END
), faults AS (
    SELECT campaign, 'crossings' AS "check", verdict AS fault, place || ' ' || path AS subject,
           topic, "partition", "offset", id AS event
    FROM judged_crossings WHERE starts_with(verdict, 'NOT')
    UNION ALL
    SELECT r.campaign, 'small_reports', 'a track of ' || t.part.cells || ' cells, a report of ' || r.cells || ': too few',
           t.part.track, e.topic, e."partition", e."offset", r.id
    FROM evaluation_reported r JOIN events e ON e.id = r.id AND e.type = 'EvaluationReported', unnest(r.tracks) AS t(part)
    WHERE t.part.cells < 2 OR r.cells < 4
    UNION ALL
    SELECT f.campaign, f."check", f.fault, f.subject, e.topic, e."partition", e."offset", f.event
    FROM found f LEFT JOIN events e ON e.id = f.event
    UNION ALL
    SELECT u.campaign, 'heldout_events', 'a held-out event on an open topic', u.ce_type, u.topic, u."partition", u."offset", NULL
    FROM undecodable u JOIN declared_types d ON u.ce_type LIKE 'bat.' || d.type || '.v%'
    WHERE d.plane = 'heldout' AND NOT starts_with(u.topic, 'heldout.')
    UNION ALL
    SELECT e.campaign, 'writers', 'written by ' || e.source || ' with ' || e.logic || ', not by ' || w.writer, e.type,
           e.topic, e."partition", e."offset", e.id
    FROM wrong_writers w JOIN events e ON e.campaign = w.campaign AND e.topic = w.topic AND e.type = w.type
         AND e.source = w.source AND e.logic = w.logic
)
SELECT *, row_number() OVER (PARTITION BY campaign ORDER BY "check", topic, "partition", "offset", subject) AS number
FROM faults;
