-- Bank funnel: how far practice states came, by focus, track and outcome
-- Each column counts the states that came at least that far; rejected_by names the leakage checks that failed, with
-- counts; refused counts cleared states that are near-copies. Concludes: no state was planned without being admitted,
-- admitted without a cleared verdict, admitted and refused, or planned after it was retired (the last column must be 0).
-- Does not show what a check cannot see; bank_checks has the evidence.
-- param campaign: the campaign; the latest one when left out
WITH mine AS MATERIALIZED (
    SELECT * FROM states WHERE campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
), failing AS (
    SELECT focus, track, outcome, unnest(list_filter(checks, lambda c: NOT c.passed)).name AS name FROM mine
), named AS (
    SELECT focus, track, outcome, string_agg(name || ' ' || n, ', ' ORDER BY name) AS rejected_by
    FROM (SELECT focus, track, outcome, name, count(*) AS n FROM failing GROUP BY ALL) GROUP BY ALL
)
SELECT s.focus, s.track, s.outcome, count(*) AS requested,
       count(s.state_event) AS synthesised, count(s.failure) AS failed,
       count(*) FILTER (s.cleared) AS cleared, count(*) FILTER (NOT s.cleared) AS rejected,
       any_value(n.rejected_by) AS rejected_by,
       count(s.refusal_event) AS refused, count(s.admission_event) AS admitted, count(s.planned_round) AS planned,
       count(*) FILTER (s.status = 'trained') AS trained, count(s.retirement_event) AS retired,
       count(*) FILTER ((s.admission_event IS NOT NULL AND s.cleared IS DISTINCT FROM true)
                        OR (s.admission_event IS NOT NULL AND s.refusal_event IS NOT NULL)
                        OR (s.planned_round IS NOT NULL AND s.admission_event IS NULL)
                        OR s.last_planned_round > s.retired_round) AS out_of_order
FROM mine s
LEFT JOIN named n ON n.focus = s.focus AND n.track = s.track AND n.outcome = s.outcome
GROUP BY s.focus, s.track, s.outcome
ORDER BY s.focus, s.track, s.outcome
