-- Where time goes: cold start, sampling, judging, update, evaluation, and what is left for the log and waiting
-- Concludes: what to make faster. The first parts follow one another where there is one worker of each kind, so they add up;
-- the rest is the log, start-up and waiting. Synthesis and the leakage gate work beside them and are shown without a share.
-- Sandbox seconds are the sum over calls, of which several may run at once.
-- param campaign: the campaign; the latest one when left out
WITH c AS (SELECT coalesce($campaign, (SELECT campaign FROM latest_campaign)) AS name),
mine AS (SELECT e.* FROM event_totals e, c WHERE e.campaign = c.name),
span AS (SELECT epoch(max(last_time)) - epoch(min(first_time)) AS seconds FROM mine),
parts AS (
    SELECT 1 AS place, 'cold start (corpus, SFT)' AS part, sum(wall_s) AS seconds, true AS in_line
    FROM mine WHERE type = 'ColdStartCompleted'
    UNION ALL SELECT 2, 'sampling of practice rollouts', sum(wall_s), true
    FROM mine WHERE type IN ('RolloutCompleted', 'RolloutFailed')
    UNION ALL SELECT 3, '  of which sandbox calls', sum(sandbox_s), NULL FROM mine WHERE type = 'RolloutCompleted'
    UNION ALL SELECT 4, 'update (GRPO, weights, recovery)', sum(wall_s), true
    FROM mine WHERE type = 'TrainingStepCompleted'
    UNION ALL SELECT 5, 'evaluation (held-out)', sum(wall_s), true FROM mine WHERE type = 'EvaluationReported'
    UNION ALL SELECT 7, 'judging, beside sampling', sum(wall_s), false
    FROM mine WHERE type IN ('RewardScored', 'RewardWithheld')
    UNION ALL SELECT 8, 'synthesis, beside it all', sum(wall_s), false
    FROM mine WHERE type IN ('StateSynthesized', 'SynthesisFailed')
    UNION ALL SELECT 9, 'leakage gate, beside it all', sum(wall_s), false FROM mine WHERE type = 'LeakageVerdict'
),
rest AS (
    SELECT 6 AS place, 'log, start-up and waiting' AS part,
           (SELECT seconds FROM span) - coalesce((SELECT sum(seconds) FROM parts WHERE in_line), 0) AS seconds, true AS in_line
)
SELECT part, round(seconds, 1) AS seconds,
       CASE WHEN in_line THEN round(seconds / nullif((SELECT seconds FROM span), 0), 3) END AS share
FROM (SELECT * FROM parts UNION ALL SELECT * FROM rest
      UNION ALL SELECT 10, 'from start to end', (SELECT seconds FROM span), true)
WHERE EXISTS (FROM mine)
ORDER BY place
