-- Anomalies: what should not be on the log
-- Empty on a sound log. Finds: events whose cause is not there, ids that do not follow from their cause, decisions
-- without a cut, duplicates with another body, undecodable records, and training rows without a reward event.
-- Does not check that decisions follow from their inputs: replay does.
-- param campaign: the campaign; the latest one when left out
SELECT 'cause is not on the log' AS finding, e.topic, e."partition", e."offset", e.type, e.id, e.cause AS detail
FROM events e
WHERE e.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
  AND e.cause <> repeat('0', 32) AND NOT EXISTS (SELECT 1 FROM events c WHERE c.id = e.cause)
UNION ALL
SELECT 'id does not follow from its cause', e.topic, e."partition", e."offset", e.type, e.id, e.ordinal::VARCHAR
FROM events e
WHERE e.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign)) AND NOT e.id_follows
UNION ALL
SELECT 'decision without a cut', e.topic, e."partition", e."offset", e.type, e.id, e.logic
FROM events e
WHERE e.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
  AND e.topic IN ('round', 'group', 'bank.request', 'bank.ready', 'curriculum', 'promotion') AND e.cut IS NULL
UNION ALL
SELECT 'duplicate with another body', d.topic, d."partition", d."offset", d.type, d.id, d.first_offset::VARCHAR
FROM duplicates d
WHERE d.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign)) AND NOT d.same_body
UNION ALL
SELECT 'undecodable', u.topic, u."partition", u."offset", u.ce_type, NULL, u.error
FROM undecodable u
UNION ALL
SELECT 'trained without a reward event', e.topic, e."partition", e."offset", e.type, e.id, t.rollout
FROM training_rows t JOIN events e ON e.id = t.step_event
WHERE t.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
  AND NOT EXISTS (SELECT 1 FROM reward_scored s WHERE s.rollout = t.rollout)
ORDER BY 1, 2, 3, 4
