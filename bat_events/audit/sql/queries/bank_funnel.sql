-- Bank funnel: how far practice states came, by focus, track and outcome
-- Each column counts the states that came at least that far; rejected_by names the leakage checks that failed, with
-- counts; refused counts cleared states that are near-copies. Concludes: no state was planned without being admitted,
-- admitted without a cleared verdict, admitted and refused, or planned after it was retired (the last column must be 0).
-- Does not show what a check cannot see; bank_checks has the evidence.
-- param campaign: the campaign; the latest one when left out
SELECT f.focus, f.track, f.outcome, f.requested, f.synthesised, f.failed, f.cleared, f.rejected, f.rejected_by, f.refused,
       f.admitted, f.planned, f.trained, f.retired, f.out_of_order
FROM bank_cells f
WHERE f.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
ORDER BY f.focus, f.track, f.outcome
