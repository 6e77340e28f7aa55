-- Service progress: what each service put on the log, and when last
-- age_s is how far a service's last event lies behind the newest of the campaign, by the log's clock. Concludes: what
-- was published. A service without work is silent too: silence alone does not mean that it is dead.
-- param campaign: the campaign; the latest one when left out
WITH newest AS (SELECT campaign, max(log_time) AS log_time FROM events GROUP BY campaign)
SELECT e.source, string_agg(DISTINCT e.logic, ', ' ORDER BY e.logic) AS logic, count(*) AS events,
       min(e.log_time) AS first, max(e.log_time) AS last,
       round(epoch(any_value(n.log_time) - max(e.log_time)), 1) AS age_s,
       round(60 * (count(*) - 1) / nullif(epoch(max(e.log_time) - min(e.log_time)), 0), 1) AS per_minute,
       arg_max(e.type, e.log_time) AS last_type
FROM events e JOIN newest n ON n.campaign = e.campaign
WHERE e.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
GROUP BY e.source ORDER BY e.source
