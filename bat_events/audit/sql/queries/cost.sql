-- Cost: seconds, tokens and bytes by round and event type
-- Sums over what was measured; measured says on how many events. Concludes: where the time went. Seconds of services
-- that worked at the same time overlap, so they do not add up to the time that passed. The evaluator's report carries
-- the whole evaluation; its cells stay on the held-out plane.
-- param campaign: the campaign; the latest one when left out
SELECT e.round, e.type, sum(e.events)::BIGINT AS events, sum(e.measured)::BIGINT AS measured, sum(e.wall_s) AS wall_s,
       sum(e.wall_s) / sum(e.measured) AS mean_wall_s, sum(e.device_s) AS device_s, sum(e.sandbox_s) AS sandbox_s,
       sum(e.tokens_in) AS tokens_in, sum(e.tokens_out) AS tokens_out, sum(e.bytes_out) AS bytes_out,
       sum(e.body_bytes) AS log_bytes
FROM event_totals e
WHERE e.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
GROUP BY e.round, e.type ORDER BY e.round NULLS FIRST, e.type
