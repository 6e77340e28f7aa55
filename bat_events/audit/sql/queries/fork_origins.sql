-- Fork origins: what of a fork was copied, from where, and what is its own
-- One row per topic, partition and campaign that made the events: the fork itself for its own ones. first_there and last_there are
-- offsets on the log of copied_from. Concludes: where a copy's prefix ends and the fork's own events begin; id_follows says that
-- every id is the one that its maker gives. Whether copies are their origin's, `replay --origin` says.
-- param topic: one topic; all when left out
-- param campaign: the campaign; the latest one when left out
SELECT e.topic, e."partition", e.maker, e.copied_from, sum(e.events)::BIGINT AS events, min(e.first_copied) AS first_there,
       max(e.last_copied) AS last_there, min(e.first_offset) AS first_here, max(e.last_offset) AS last_here,
       bool_and(e.id_follows) AS id_follows
FROM event_totals e
WHERE e.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign)) AND ($topic IS NULL OR e.topic = $topic)
GROUP BY e.topic, e."partition", e.maker, e.copied_from
ORDER BY e.topic, e."partition", first_here
