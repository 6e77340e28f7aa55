-- Service progress: what each service put on the log, and when last
-- age_s is how far a service's last event lies behind the newest of the campaign, by the log's clock. Concludes: what
-- was published. A service without work is silent too: silence alone does not mean that it is dead.
-- param campaign: the campaign; the latest one when left out
WITH mine AS (
    SELECT * FROM event_totals WHERE campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
)
SELECT e.source, string_agg(DISTINCT e.logic, ', ' ORDER BY e.logic) AS logic, sum(e.events)::BIGINT AS events,
       min(e.first_time) AS first, max(e.last_time) AS last,
       round(epoch((SELECT max(last_time) FROM mine) - max(e.last_time)), 1) AS age_s,
       round(60 * (sum(e.events)::BIGINT - 1) / nullif(epoch(max(e.last_time) - min(e.first_time)), 0), 1) AS per_minute,
       arg_max(e.type, e.last_time) AS last_type
FROM mine e
GROUP BY e.source ORDER BY e.source
