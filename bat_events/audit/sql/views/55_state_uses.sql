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
    SELECT campaign, subject AS state, bool_and(cleared) AS cleared, list(DISTINCT body) AS bodies, min(blind) AS blind
    FROM gate_verdicts WHERE kind = 'state' GROUP BY ALL
)
SELECT u.campaign, u.use, u.state, u.body, u.event, s.cleared, s.blind,
       CASE WHEN s.state IS NULL THEN 'no verdict of the leakage gate'
            WHEN NOT s.cleared THEN 'the leakage gate rejected it'
            WHEN NOT list_contains(s.bodies, u.body) OR len(s.bodies) > 1 THEN 'the verdict is on another body'
            WHEN u.use <> 'admitted' AND NOT EXISTS (
                SELECT 1 FROM state_admitted a WHERE a.campaign = u.campaign AND a.state = u.state)
                THEN 'the bank never admitted it' END AS fault
FROM used u LEFT JOIN said s ON s.campaign = u.campaign AND s.state = u.state;
