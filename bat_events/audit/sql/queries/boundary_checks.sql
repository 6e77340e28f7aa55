-- Boundary checks: how much each check on the log looked at, and how much it found
-- One row per check. Concludes: where looked_at is above 0, found is 0 and unseen is 0, the log shows no fault of that kind;
-- boundary_faults lists what was found. Does not conclude anything where looked_at is 0, or of what was unseen (training rows
-- whose evidence could not be read, records that are no events). `audit boundary` adds what is not on the log: the
-- search of all bytes, the broker's rules and its denials.
-- param campaign: the campaign; the latest one when left out
SELECT b."check", b.what, b.looked_at, b.found, b.unseen, b.example
FROM boundary_totals b
WHERE b.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
ORDER BY b.place
