-- How strict each model was about each item, by round.
WITH said AS (
    SELECT campaign, round, 'first' AS role, judge, model, unnest(texts) AS part FROM reward_scored
    UNION ALL
    SELECT campaign, round, 'shadow', judge, model, unnest(texts) FROM reward_shadowed
)
SELECT campaign, role, judge, model, part.item AS item, round, count(*) AS asked, avg(part.asked) AS mean,
       avg(part.cap) AS evidence_mean, avg(least(part.asked, part.cap) / part.cap) AS room
FROM said WHERE part.cap > 0
GROUP BY campaign, role, judge, model, part.item, round
