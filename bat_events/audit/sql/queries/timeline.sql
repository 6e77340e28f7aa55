-- Timeline: what happened, in the log's order of time
-- Without a topic: the milestones only (campaign, round, training, report, promotion, curriculum). after_s is the time
-- since the row before. Concludes: what followed what. Order between topics within a millisecond means nothing; causes do.
-- param topic: one topic, or all
-- param campaign: the campaign; the latest one when left out
SELECT e.log_time, round(epoch(e.log_time - lag(e.log_time) OVER (ORDER BY e.log_time, e.topic, e."partition", e."offset")), 3)
           AS after_s,
       e.round, e.topic, e.type, e.source, e.subject, e.id, e.cause
FROM events e
WHERE e.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
  AND CASE WHEN $topic IS NULL
           THEN e.topic IN ('campaign', 'round', 'training', 'boundary.report', 'promotion', 'curriculum')
           ELSE $topic IN ('all', e.topic) END
ORDER BY e.log_time, e.topic, e."partition", e."offset"
