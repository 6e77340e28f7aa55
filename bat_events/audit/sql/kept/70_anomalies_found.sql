-- What should not be on the log, of every campaign; records that are no events stand here whatever they say of theirs.
SELECT 'cause is not on the log' AS finding, e.campaign, e.topic, e."partition", e."offset", e.type, e.id, e.cause AS detail
FROM events e
WHERE e.cause <> repeat('0', 32) AND NOT EXISTS (SELECT 1 FROM events c WHERE c.id = e.cause)
UNION ALL
SELECT 'id does not follow from its cause', e.campaign, e.topic, e."partition", e."offset", e.type, e.id, e.ordinal::VARCHAR
FROM events e WHERE NOT e.id_follows
UNION ALL
SELECT 'decision without a cut', e.campaign, e.topic, e."partition", e."offset", e.type, e.id, e.logic
FROM events e
WHERE e.cut IS NULL AND e.topic IN ('round', 'group', 'bank.request', 'bank.ready', 'curriculum', 'promotion')
UNION ALL
SELECT 'duplicate with another body', d.campaign, d.topic, d."partition", d."offset", d.type, d.id, d.first_offset::VARCHAR
FROM duplicates d WHERE NOT d.same_body
UNION ALL
SELECT 'undecodable', u.campaign, u.topic, u."partition", u."offset", u.ce_type, NULL, u.error
FROM undecodable u
UNION ALL
SELECT 'trained without a reward event', t.campaign, e.topic, e."partition", e."offset", e.type, e.id, t.rollout
FROM training_rows t JOIN events e ON e.id = t.step_event AND e.type = 'TrainingStepCompleted'
WHERE NOT EXISTS (SELECT 1 FROM reward_scored s WHERE s.rollout = t.rollout)
