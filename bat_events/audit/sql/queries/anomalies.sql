-- Anomalies: what should not be on the log
-- Empty on a sound log. Finds: events whose cause is not there, ids that do not follow from their cause, decisions
-- without a cut, duplicates with another body, undecodable records, and training rows without a reward event.
-- Does not check that decisions follow from their inputs: replay does.
-- param campaign: the campaign; the latest one when left out
SELECT a.finding, a.topic, a."partition", a."offset", a.type, a.id, a.detail
FROM anomalies_found a
WHERE a.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign)) OR a.finding = 'undecodable'
ORDER BY 1, 2, 3, 4
