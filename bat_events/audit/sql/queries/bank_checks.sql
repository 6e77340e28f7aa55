-- Bank checks: what each leakage check passed and failed, with one example
-- Concludes: that every check ran on every state that has a verdict (the counts agree). Does not prove that a state is
-- clean: only that these checks found nothing.
-- param campaign: the campaign; the latest one when left out
SELECT c.part.name AS "check", count(*) AS ran, count(*) FILTER (c.part.passed) AS passed,
       count(*) FILTER (NOT c.part.passed) AS failed,
       arg_min(v.state, v.time) FILTER (NOT c.part.passed) AS first_failed_state,
       arg_min(c.part.evidence, v.time) FILTER (NOT c.part.passed) AS its_evidence
FROM leakage_verdict v, unnest(v.checks) AS c(part)
WHERE v.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
GROUP BY "check" ORDER BY "check"
