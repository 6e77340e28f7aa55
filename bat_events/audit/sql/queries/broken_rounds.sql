-- Broken rounds: rounds that were broken off because too many rewards were missing, and why they were
-- Empty where infrastructure held. Finds: the step in which the share of missing rewards passed what the campaign allows,
-- each kind and reason with its count, and with how many updates the round ended. Missing rewards are no zeros: nothing
-- is concluded of the policy.
-- param campaign: the campaign; the latest one when left out
SELECT b.round, b.step, b.rollouts, b.missing, b.missing / b.rollouts AS share, b.max_missing,
       r.part.kind AS kind, r.part.reason AS reason, r.part.count AS count, p.steps AS updates, b.time AS broken_at
FROM round_broken b
CROSS JOIN unnest(b.reasons) AS r(part)
LEFT JOIN checkpoint_produced p ON p.campaign = b.campaign AND p.round = b.round
WHERE b.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
ORDER BY b.round, b.step, r.part.count DESC, kind, reason
