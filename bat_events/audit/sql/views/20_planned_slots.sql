-- One row per slot of every planned round: the state that it practises.
CREATE OR REPLACE VIEW planned_slots AS
SELECT p.id AS plan_event, p.campaign, p.round, p.target_stage, s.step.step AS step, l.slot.slot AS slot,
       l.slot.pool AS pool, l.slot.focus AS focus, l.slot.track AS track, l.slot.outcome AS outcome,
       l.slot.state AS state, l.slot.body AS body
FROM round_planned p, unnest(p.steps) AS s(step), unnest(s.step.slots) AS l(slot);
