-- Training steps: the signals of every update
-- Concludes: whether updates were healthy and what rewards did on the practised states. A rising reward on changing
-- states is no measurement of the policy: evaluation is. counts is no where a rewind replaced the step.
-- param round: one round; all when left out
-- param campaign: the campaign; the latest one when left out
SELECT s.round, s.step, s.reward, s.zero_variance, s.loss, s.grad_norm, s.entropy, s.kl, s.clip_ratio, s.logprob_gap,
       list_sum(list_transform(s.pools, lambda p: p.tokens)) AS tokens, e.wall_s, s.healthy, s.counts, s.attempt,
       array_to_string(s.health, '; ') AS health,
       list_transform(s.pools, lambda p: p.pool || ' ' || round(p.reward, 4) || ' (' || p.tokens || ')') AS pools,
       list_transform(s.actions, lambda a: a.focus || ' ' || a.valid || '/' || a.turns) AS valid_actions,
       s.weights
FROM steps s LEFT JOIN milestones e ON e.id = s.id
WHERE s.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
  AND ($round IS NULL OR s.round = $round::BIGINT)
ORDER BY s.round, s.step, s.attempt
