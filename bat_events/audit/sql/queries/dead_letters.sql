-- Dead letters: what services could not take further, and what became of it
-- Of all campaigns, since a record may not say which it belongs to. One row per letter, in the order in which they were
-- written. became is what a person or the service said of it last; NULL where nothing was said: it still waits, or is
-- ignored by rule (waits = false). Concludes: what was parked, why, for how long, and who decided. The records are not
-- copied: read them at the place given here. Held-out letters stand in the held-out auditor's file only.
-- param service: only this consumer group
-- param open: yes leaves out what is settled or discarded
WITH words AS (
    SELECT dead_letter, 'redriven' AS word, time, reason FROM redriven
    UNION ALL SELECT dead_letter, 'discarded', time, reason FROM discarded
    UNION ALL SELECT dead_letter, 'settled', time, NULL FROM dead_letter_settled
),
last AS (
    SELECT dead_letter, arg_max(word, (time, word = 'settled')) AS word, max(time) AS time,
           string_agg(reason, '; ' ORDER BY time) AS reason
    FROM words GROUP BY dead_letter
)
SELECT d.time, d.service, d.topic, d."partition", d."offset", e.subject AS key, d.campaign, d.cause, d.waits, d.attempts,
       d.event_type, d.event, l.word AS became, l.time AS at, l.reason, d.error, d.value_bytes, d.value_digest, d.id
FROM dead_lettered d JOIN events e ON e.id = d.id LEFT JOIN last l ON l.dead_letter = d.id
WHERE coalesce(d.service = $service, true) AND (coalesce($open, 'no') <> 'yes' OR coalesce(l.word, 'redriven') = 'redriven')
ORDER BY e.log_time, e."offset"
