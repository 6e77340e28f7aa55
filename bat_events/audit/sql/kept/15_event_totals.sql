-- Sums over events that are alike: what cost, progress and time of a campaign are made of.
SELECT campaign, topic, "partition", round, type, source, logic, maker, copied_from,
       count(*) AS events, count(wall_s) AS measured, sum(wall_s) AS wall_s, sum(device_s) AS device_s,
       sum(sandbox_s) AS sandbox_s, sum(tokens_in) AS tokens_in, sum(tokens_out) AS tokens_out,
       sum(bytes_out) AS bytes_out, sum(body_bytes) AS body_bytes, min(log_time) AS first_time, max(log_time) AS last_time,
       min("offset") AS first_offset, max("offset") AS last_offset, min(copied_offset) AS first_copied,
       max(copied_offset) AS last_copied, bool_and(id_follows) AS id_follows
FROM events GROUP BY ALL;
