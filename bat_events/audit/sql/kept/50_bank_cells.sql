-- How far practice states came, by focus, track and outcome.
WITH parts AS (
    SELECT campaign, state, unnest(checks) AS part FROM leakage_verdict
), failing AS (
    SELECT p.campaign, q.focus, q.track, q.outcome, p.part.name AS name, count(*) AS n
    FROM parts p JOIN synthesis_requested q ON q.campaign = p.campaign AND q.state = p.state
    WHERE NOT p.part.passed GROUP BY ALL
), named AS (
    SELECT campaign, focus, track, outcome, string_agg(name || ' ' || n, ', ' ORDER BY name) AS rejected_by
    FROM failing GROUP BY ALL
), cells AS (
    SELECT campaign, focus, track, outcome, count(*) AS requested, count(state_event) AS synthesised, count(failure) AS failed,
           count(*) FILTER (cleared) AS cleared, count(*) FILTER (NOT cleared) AS rejected,
           count(refusal_event) AS refused, count(admission_event) AS admitted, count(planned_round) AS planned,
           count(*) FILTER (status = 'trained') AS trained, count(retirement_event) AS retired,
           count(*) FILTER ((admission_event IS NOT NULL AND cleared IS DISTINCT FROM true)
                            OR (admission_event IS NOT NULL AND refusal_event IS NOT NULL)
                            OR (planned_round IS NOT NULL AND admission_event IS NULL)
                            OR last_planned_round > retired_round) AS out_of_order
    FROM states GROUP BY campaign, focus, track, outcome
)
SELECT c.*, n.rejected_by
FROM cells c
LEFT JOIN named n ON n.campaign = c.campaign AND n.focus = c.focus AND n.track = c.track AND n.outcome = c.outcome
