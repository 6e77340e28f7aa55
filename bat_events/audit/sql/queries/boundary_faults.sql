-- Boundary faults: everything that the boundary checks find on the log, one row each
-- Finds: fields that must not have crossed, reports of too few cells, states admitted or used without a cleared verdict on
-- that very body, verdicts given without the published fingerprints, an unscanned corpus, training rows without lineage,
-- held-out events on open topics, and events that do not name their topic's one writer. Empty on a sound log. Does not
-- read artefacts or bytes (audit search does), and a writer's name is what the event itself says (access.md).
-- param campaign: the campaign; the latest one when left out
SELECT f."check", f.fault, f.subject, f.topic, f."partition", f."offset", f.event
FROM boundary_faults f
WHERE (f.campaign IS NULL OR f.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign)))
  AND f.number <= coalesce(getvariable('most_rows'), f.number)
ORDER BY 1, 4, 5, 6, 3
