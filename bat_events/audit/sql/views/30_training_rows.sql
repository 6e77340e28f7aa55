-- One row per rollout that took part in an update.
CREATE OR REPLACE VIEW training_rows AS
SELECT s.id AS step_event, s.campaign, s.round, s.step, s.attempt, s.counts, s.weights,
       g.part.slot AS slot, g.part.pool AS pool, g.part."group" AS group_id,
       r.part.rollout AS rollout, r.part.reward AS reward, r.part.advantage AS advantage
FROM steps s, unnest(s.groups) AS g(part), unnest(g.part.rollouts) AS r(part);
