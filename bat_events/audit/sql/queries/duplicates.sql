-- Duplicates: later events of an id that the log already held
-- Readers drop them. Concludes: work that was done again after a crash; same_body says whether it came out the same.
-- A duplicate with another body is expected only where the engine is not deterministic; its body counts for nothing.
-- param campaign: the campaign; the latest one when left out
SELECT d.type, d.topic, d."partition", d."offset", d.first_offset, d.same_body, d.time, d.id
FROM duplicates d
WHERE d.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
ORDER BY d.topic, d."partition", d."offset"
