-- Promotions: every decision of the gate with every check it made
-- One row per check, value beside threshold; the baseline is promoted by rule and has no checks. Concludes: exactly which
-- condition held a candidate. Does not re-judge the decision: replay does.
-- param campaign: the campaign; the latest one when left out
SELECT d.round, d.checkpoint, d.outcome, d.mode, d.overall, d.best_overall,
       c.part.name AS "check", c.part.passed AS passed, c.part.value AS value, c.part.threshold AS threshold,
       array_to_string(d.reasons, '; ') AS why, d.time, d.id
FROM decisions d LEFT JOIN unnest(d.checks) AS c(part) ON true
WHERE d.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
ORDER BY d.round, "check"
