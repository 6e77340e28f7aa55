-- What practice on each state gave.
WITH given AS (
    SELECT campaign, state, focus, track, count(DISTINCT group_id) AS groups, count(*) AS rollouts, count(reward) AS scored,
           count(*) - count(reward) AS missing, avg(reward) AS mean, min(reward) AS lowest, max(reward) AS highest,
           stddev_samp(reward) AS deviation, count(reward) > 1 AND min(reward) = max(reward) AS no_signal
    FROM rollout_results GROUP BY campaign, state, focus, track
)
SELECT g.*, s.outcome
FROM given g LEFT JOIN synthesis_requested s ON s.campaign = g.campaign AND s.state = g.state
ORDER BY g.campaign, g.focus, g.track, g.state
