-- Rounds: what was prescribed, trained and decided
-- One row per candidate; round 0 is the cold start. Concludes: which stage a round practised, how many updates its
-- candidate carries, how it was measured and decided, and what the best so far is. Does not say why a stage was
-- prescribed (curriculum) or how sure a gain is (comparisons).
-- param campaign: the campaign; the latest one when left out
WITH trained AS (
    SELECT campaign, round, count(*) AS updates, arg_min(reward, step) AS first_reward, arg_max(reward, step) AS last_reward
    FROM steps WHERE counts GROUP BY ALL
)
SELECT c.round, t.target_stage, c.steps, k.first_reward, k.last_reward,
       c.decision, c.task, c.agentic, c.overall, c.best_overall, array_to_string(c.reasons, '; ') AS why,
       c.checkpoint, c.parent, k.updates AS updates_done, t.corrective
FROM checkpoints c
LEFT JOIN target_stage_prescribed t ON t.campaign = c.campaign AND t.round = c.round
LEFT JOIN trained k ON k.campaign = c.campaign AND k.round = c.round
WHERE c.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
ORDER BY c.round
