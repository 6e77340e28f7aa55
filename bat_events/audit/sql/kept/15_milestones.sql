-- The envelopes of what happens once per round, step or campaign: few among all events.
SELECT campaign, log_time, topic, "partition", "offset", round, type, source, subject, id, cause, wall_s
FROM events
WHERE topic IN ('campaign', 'round', 'training', 'boundary.report', 'promotion', 'curriculum');
