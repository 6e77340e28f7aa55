-- One row per slot of every planned round: the state that it practises.
CREATE OR REPLACE VIEW planned_slots AS
WITH steps AS (
    SELECT id, campaign, round, target_stage, unnest(steps) AS part FROM round_planned
), slots AS (
    SELECT * EXCLUDE part, part.step AS step, unnest(part.slots) AS part FROM steps
)
SELECT id AS plan_event, campaign, round, target_stage, step, part.slot AS slot, part.pool AS pool, part.focus AS focus,
       part.track AS track, part.outcome AS outcome, part.state AS state, part.body AS body
FROM slots;
