-- Judges: which judge scored how many rewards, by round, and what its model's word changed
-- asked counts items that a model was asked about; lowered those to which it gave less than the evidence did, and by how much
-- on average. Concludes: whether one judge scored a whole campaign (rewards of two judges are not comparable), how often
-- texts mattered, and what judging cost. A model can only lower: a rise of rewards is never its doing.
-- param campaign: the campaign; the latest one when left out
SELECT j.round, j.judge, j.model, j.rubric_version, j.rewards, j.mean_reward, j.asked, j.lowered, j.lowered_by,
       j.wall_s, j.tokens_in, j.tokens_out
FROM judge_totals j
WHERE j.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
ORDER BY j.round, j.judge, j.model
