-- Undecodable: records that are no events
-- Of all campaigns, since such a record may not say which it belongs to. Concludes: what readers refuse, and why. The
-- bytes are not copied: read them from the log at the place given here.
SELECT u.topic, u."partition", u."offset", u.log_time, u.kind, u.error, u.ce_type, u.campaign, u.value_bytes, u.value_digest
FROM undecodable u
ORDER BY u.topic, u."partition", u."offset"
