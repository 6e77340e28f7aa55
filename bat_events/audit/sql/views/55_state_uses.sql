-- One row per use of a practice state: admitted, planned, practised, trained on; with what the gate had said of it.
CREATE OR REPLACE VIEW state_uses AS
WITH used AS (
    SELECT campaign, 'admitted' AS use, state, body, id AS event FROM state_admitted
    UNION ALL
    SELECT campaign, 'planned', state, body, plan_event FROM planned_slots
    UNION ALL
    SELECT campaign, 'practised', state, body, id FROM group_requested
    UNION ALL
    SELECT campaign, 'practised', state, body, id FROM rollout_completed
    UNION ALL
    SELECT t.campaign, 'trained', c.state, c.body, t.step_event
    FROM training_rows t JOIN rollout_completed c ON c.campaign = t.campaign AND c.rollout = t.rollout
), said AS (
    SELECT campaign, subject AS state, bool_and(cleared) AS cleared, min(body) AS body, max(body) AS another_body,
           min(blind) AS blind
    FROM gate_verdicts WHERE kind = 'state' GROUP BY campaign, subject
), admitted AS (
    SELECT DISTINCT campaign, state FROM state_admitted
), known AS (
    SELECT campaign, state, s.cleared, s.body, s.another_body, s.blind, s.state IS NOT NULL AS judged, a.state IS NOT NULL AS admitted
    FROM said s FULL JOIN admitted a USING (campaign, state)
)
SELECT u.campaign, u.use, u.state, u.body, u.event, k.cleared, k.blind,
       CASE WHEN k.judged IS DISTINCT FROM true THEN 'no verdict of the leakage gate'
            WHEN NOT k.cleared THEN 'the leakage gate rejected it'
            WHEN k.body IS DISTINCT FROM u.body OR k.body <> k.another_body THEN 'the verdict is on another body'
            WHEN u.use <> 'admitted' AND NOT k.admitted THEN 'the bank never admitted it' END AS fault
FROM used u LEFT JOIN known k ON k.campaign = u.campaign AND k.state = u.state;
