-- Timeline: what happened, in the log's order of time
-- Without a topic: the milestones only (campaign, round, training, report, promotion, curriculum). after_s is the time
-- since the row before. Concludes: what followed what. Order between topics within a millisecond means nothing; causes do.
-- param topic: one topic, or all
-- param campaign: the campaign; the latest one when left out
WITH shown AS (
    SELECT log_time, topic, "partition", "offset", round, type, source, subject, id, cause
    FROM milestones WHERE $topic IS NULL AND campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
    UNION ALL
    SELECT log_time, topic, "partition", "offset", round, type, source, subject, id, cause
    FROM events WHERE $topic IN ('all', topic) AND campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
)
SELECT e.log_time, round(epoch(e.log_time - lag(e.log_time) OVER (ORDER BY e.log_time, e.topic, e."partition", e."offset")), 3)
           AS after_s,
       e.round, e.topic, e.type, e.source, e.subject, e.id, e.cause
FROM shown e
ORDER BY e.log_time, e.topic, e."partition", e."offset"
