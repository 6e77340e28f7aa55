-- Groups without reward: groups of which a rollout has no reward, and what was done about it
-- Concludes: which infrastructure faults cost how many rewards, and that a group with fewer than two rewards was
-- replaced by another attempt instead of being trained. Rollouts still being sampled or judged are waiting, not lost.
-- param campaign: the campaign; the latest one when left out
SELECT g.round, g.step, g.slot, g.attempt, g.focus, g.track, g.size, g.scored, g.failed, g.withheld, g.unsettled,
       CASE WHEN g.trained THEN 'trained on ' || g.scored || ' of ' || g.size
            WHEN g.unsettled > 0 THEN 'waiting'
            WHEN g.scored >= 2 THEN 'ready'
            WHEN EXISTS (SELECT 1 FROM group_requested n WHERE n.campaign = g.campaign AND n.round = g.round
                         AND n.step = g.step AND n.slot = g.slot AND n.attempt > g.attempt) THEN 'replaced'
            WHEN EXISTS (SELECT 1 FROM round_broken b WHERE b.campaign = g.campaign AND b.round = g.round)
            THEN 'untrainable, round broken off'
            ELSE 'untrainable, not replaced' END AS standing,
       g.reasons, g.group_id, g.state
FROM group_results g
WHERE g.scored < g.size AND g.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
ORDER BY g.round, g.step, g.slot, g.attempt
