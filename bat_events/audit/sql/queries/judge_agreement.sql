-- Judge agreement: the rewards of the first judge beside those of the shadow, by round, on the rollouts of the sample
-- difference is shadow minus first; near counts pairs within 0.1; missing those to which the shadow gave none.
-- Concludes: whether two judges see the same rollouts alike. A steady difference is another strictness and harms no group,
-- for advantages are within groups; a low correlation says that the first judge's rewards carry what the second does not
-- see. It says nothing of who is right, and with few pairs nothing at all: read pairs first.
-- param campaign: the campaign; the latest one when left out
SELECT h.round, s.judge AS first_judge, s.model AS first_model, h.judge AS shadow_judge, h.model AS shadow_model,
       count(h.reward) AS pairs, count(*) - count(h.reward) AS missing,
       avg(s.reward) FILTER (h.reward IS NOT NULL) AS first_mean, avg(h.reward) AS shadow_mean,
       avg(h.reward - s.reward) AS difference, avg(abs(h.reward - s.reward)) AS distance,
       count(*) FILTER (abs(h.reward - s.reward) <= 0.1) AS near,
       CASE WHEN count(h.reward) > 2 AND stddev_samp(s.reward) > 0 AND stddev_samp(h.reward) > 0
            THEN corr(s.reward, h.reward) END AS correlation
FROM reward_shadowed h
JOIN reward_scored s ON s.campaign = h.campaign AND s.rollout = h.rollout
WHERE h.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
GROUP BY h.round, s.judge, s.model, h.judge, h.model
ORDER BY h.round, first_model, shadow_model
