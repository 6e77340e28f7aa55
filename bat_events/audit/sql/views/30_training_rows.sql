-- One row per rollout that took part in an update. Lists are unnested where they are selected: as a lateral join DuckDB would
-- first look for equal lists.
CREATE OR REPLACE VIEW training_rows AS
WITH groups AS (
    SELECT id, campaign, round, step, attempt, counts, weights, unnest(groups) AS part FROM steps
), rollouts AS (
    SELECT * EXCLUDE part, part.slot AS slot, part.pool AS pool, part."group" AS group_id, unnest(part.rollouts) AS part
    FROM groups
)
SELECT id AS step_event, campaign, round, step, attempt, counts, weights, slot, pool, group_id,
       part.rollout AS rollout, part.reward AS reward, part.advantage AS advantage
FROM rollouts;
