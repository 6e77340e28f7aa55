-- What each leakage check passed and failed, with one example.
WITH parts AS (
    SELECT campaign, state, time, unnest(checks) AS part FROM leakage_verdict
)
SELECT campaign, part.name AS "check", count(*) AS ran, count(*) FILTER (part.passed) AS passed,
       count(*) FILTER (NOT part.passed) AS failed, arg_min(state, time) FILTER (NOT part.passed) AS first_failed_state,
       arg_min(part.evidence, time) FILTER (NOT part.passed) AS its_evidence
FROM parts GROUP BY campaign, part.name
