-- Rewards by state: what practice on each state gave
-- One row per state that was sampled. Concludes: which states gave no signal (all rewards equal) and where rewards are
-- missing; missing rewards are left out of the mean, never counted as 0. Rewards of different states are not comparable
-- measurements of the policy: evaluation is.
-- param focus: S1 to S5 or E2E; all when left out
-- param track: a track; all when left out
-- param campaign: the campaign; the latest one when left out
SELECT r.state, r.focus, r.track, r.outcome, r.groups, r.rollouts, r.scored, r.missing, r.mean, r.lowest, r.highest,
       r.deviation, r.no_signal
FROM state_practice r
WHERE r.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
  AND ($focus IS NULL OR r.focus = $focus) AND ($track IS NULL OR r.track = $track)
ORDER BY r.focus, r.track, r.state
