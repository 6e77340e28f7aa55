-- Everything that the boundary checks find on the log, one row each; `campaign` is NULL where the record names none.
CREATE OR REPLACE VIEW boundary_faults AS
WITH uses AS MATERIALIZED (
    SELECT * FROM state_uses WHERE fault IS NOT NULL OR blind IS NOT NULL
), lineage AS MATERIALIZED (
    SELECT campaign, complete, rollout, step_event, rollout_event FROM training_lineage
)
SELECT campaign, 'crossings' AS "check", verdict AS fault, place || ' ' || path AS subject,
       topic, "partition", "offset", id AS event
FROM judged_crossings WHERE starts_with(verdict, 'NOT')
UNION ALL
SELECT r.campaign, 'small_reports', 'a track of ' || t.part.cells || ' cells, a report of ' || r.cells || ': too few',
       t.part.track, e.topic, e."partition", e."offset", r.id
FROM evaluation_reported r JOIN events e ON e.id = r.id, unnest(r.tracks) AS t(part)
WHERE t.part.cells < 2 OR r.cells < 4
UNION ALL
SELECT u.campaign, CASE WHEN u.use = 'admitted' THEN 'admitted_states' ELSE 'used_states' END,
       u.use || ', but ' || u.fault, u.state, e.topic, e."partition", e."offset", u.event
FROM uses u LEFT JOIN events e ON e.id = u.event WHERE u.fault IS NOT NULL
UNION ALL
SELECT u.campaign, 'gate_fingerprints', u.use || ', but ' || u.blind, u.state, e.topic, e."partition", e."offset", u.event
FROM uses u LEFT JOIN events e ON e.id = u.event WHERE u.blind IS NOT NULL
UNION ALL
SELECT c.campaign, 'corpus', 'trained on, but ' || coalesce(c.fault, c.blind), c.corpus, e.topic, e."partition", e."offset", c.event
FROM corpus_uses c LEFT JOIN events e ON e.id = c.event WHERE coalesce(c.fault, c.blind) IS NOT NULL
UNION ALL
SELECT t.campaign, 'lineage', 'trained on, but its state, verdict, admission, rollout or reward is not on the log',
       t.rollout, e.topic, e."partition", e."offset", t.step_event
FROM lineage t LEFT JOIN events e ON e.id = t.step_event WHERE NOT t.complete
UNION ALL
SELECT t.campaign, 'lineage', 'a receipt''s code is not what its digest says', t.rollout, e.topic, e."partition", e."offset", r.event
FROM lineage t JOIN receipts r ON r.event = t.rollout_event LEFT JOIN events e ON e.id = r.event
WHERE NOT r.code_follows
UNION ALL
SELECT u.campaign, 'heldout_events', 'a held-out event on an open topic', u.ce_type, u.topic, u."partition", u."offset", NULL
FROM undecodable u JOIN declared_types d ON u.ce_type LIKE 'bat.' || d.type || '.v%'
WHERE d.plane = 'heldout' AND NOT starts_with(u.topic, 'heldout.')
UNION ALL
SELECT e.campaign, 'writers', 'written by ' || e.source || ' with ' || e.logic || ', not by ' || d.writer, e.type,
       e.topic, e."partition", e."offset", e.id
FROM events e LEFT JOIN declared_topics d ON d.topic = e.topic
WHERE d.topic IS NULL OR CASE WHEN d.writer = 'every service of its plane'
    THEN NOT EXISTS (SELECT 1 FROM declared_writers w WHERE w.topic = e.topic AND e.source = 'bat/' || w.writer)
    ELSE e.source <> 'bat/' || d.writer OR split_part(e.logic, '/', 1) <> d.writer END;
