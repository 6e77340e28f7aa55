-- Which judge scored how many rewards, by round, and what its model's word changed.
WITH parts AS (
    SELECT id, unnest(texts) AS part FROM reward_scored
), asked AS (
    SELECT id, count(*) AS asked, count(*) FILTER (part.asked < part.cap) AS lowered,
           avg(greatest(part.cap - part.asked, 0)) AS lowered_by
    FROM parts GROUP BY id
)
SELECT s.campaign, s.round, s.judge, s.model, s.rubric_version, count(*) AS rewards, avg(s.reward) AS mean_reward,
       coalesce(sum(a.asked), 0) AS asked, coalesce(sum(a.lowered), 0) AS lowered, avg(a.lowered_by) AS lowered_by,
       sum(e.wall_s) AS wall_s, sum(e.tokens_in) AS tokens_in, sum(e.tokens_out) AS tokens_out
FROM reward_scored s
JOIN events e ON e.id = s.id AND e.type = 'RewardScored'
LEFT JOIN asked a ON a.id = s.id
GROUP BY s.campaign, s.round, s.judge, s.model, s.rubric_version
