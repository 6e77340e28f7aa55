-- Judges: which judge scored how many rewards, by round, and what its model's word changed
-- asked counts items that a model was asked about; lowered those to which it gave less than the evidence did, and by how much
-- on average. Concludes: whether one judge scored a whole campaign (rewards of two judges are not comparable), how often
-- texts mattered, and what judging cost. A model can only lower: a rise of rewards is never its doing.
-- param campaign: the campaign; the latest one when left out
WITH asked AS (
    SELECT s.id, count(*) AS asked, count(*) FILTER (t.part.asked < t.part.cap) AS lowered,
           avg(greatest(t.part.cap - t.part.asked, 0)) AS lowered_by
    FROM reward_scored s, unnest(s.texts) AS t(part)
    GROUP BY s.id
)
SELECT s.round, s.judge, s.model, s.rubric_version, count(*) AS rewards, avg(s.reward) AS mean_reward,
       coalesce(sum(a.asked), 0) AS asked, coalesce(sum(a.lowered), 0) AS lowered, avg(a.lowered_by) AS lowered_by,
       sum(e.wall_s) AS wall_s, sum(e.tokens_in) AS tokens_in, sum(e.tokens_out) AS tokens_out
FROM reward_scored s
JOIN events e ON e.id = s.id
LEFT JOIN asked a ON a.id = s.id
WHERE s.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
GROUP BY s.round, s.judge, s.model, s.rubric_version
ORDER BY s.round, s.judge, s.model
