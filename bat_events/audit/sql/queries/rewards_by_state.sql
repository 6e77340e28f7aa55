-- Rewards by state: what practice on each state gave
-- One row per state that was sampled. Concludes: which states gave no signal (all rewards equal) and where rewards are
-- missing; missing rewards are left out of the mean, never counted as 0. Rewards of different states are not comparable
-- measurements of the policy: evaluation is.
-- param focus: S1 to S5 or E2E; all when left out
-- param track: a track; all when left out
-- param campaign: the campaign; the latest one when left out
SELECT r.state, r.focus, r.track, any_value(s.outcome) AS outcome, count(DISTINCT r.group_id) AS groups,
       count(*) AS rollouts, count(r.reward) AS scored, count(*) - count(r.reward) AS missing,
       avg(r.reward) AS mean, min(r.reward) AS lowest, max(r.reward) AS highest, stddev_samp(r.reward) AS deviation,
       count(r.reward) > 1 AND min(r.reward) = max(r.reward) AS no_signal
FROM rollout_results r
LEFT JOIN synthesis_requested s ON s.campaign = r.campaign AND s.state = r.state
WHERE r.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
  AND ($focus IS NULL OR r.focus = $focus) AND ($track IS NULL OR r.track = $track)
GROUP BY r.state, r.focus, r.track
ORDER BY r.focus, r.track, r.state
