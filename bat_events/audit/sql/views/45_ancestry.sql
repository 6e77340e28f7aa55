-- One row per candidate and each candidate that it goes back to, itself included: `of_checkpoint`, `of_round` name whose line it is.
-- Where a checkpoint was produced in several rounds, a parent is the newest one before.
CREATE OR REPLACE VIEW ancestry AS
WITH RECURSIVE links AS (
    SELECT c.campaign, c.round, c.checkpoint, c.parent, c.steps, max(p.round) AS parent_round
    FROM checkpoint_produced c
    LEFT JOIN checkpoint_produced p ON p.campaign = c.campaign AND p.checkpoint = c.parent AND p.round < c.round
    GROUP BY ALL
), line AS (
    SELECT campaign, checkpoint AS of_checkpoint, round AS of_round, round, checkpoint, parent, steps, parent_round FROM links
    UNION ALL
    SELECT l.campaign, l.of_checkpoint, l.of_round, p.round, p.checkpoint, p.parent, p.steps, p.parent_round
    FROM line l JOIN links p ON p.campaign = l.campaign AND p.checkpoint = l.parent AND p.round = l.parent_round
)
SELECT campaign, of_checkpoint, of_round, round, checkpoint, parent, steps FROM line;
