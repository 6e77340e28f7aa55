-- Bank checks: what each leakage check passed and failed, with one example
-- Concludes: that every check ran on every state that has a verdict (the counts agree). Does not prove that a state is
-- clean: only that these checks found nothing.
-- param campaign: the campaign; the latest one when left out
SELECT b."check", b.ran, b.passed, b.failed, b.first_failed_state, b.its_evidence
FROM bank_check_totals b
WHERE b.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
ORDER BY b."check"
