-- One row per candidate, with its report and decision.
CREATE OR REPLACE VIEW checkpoints AS
SELECT c.campaign, c.round, c.checkpoint, c.parent, c.steps, c.healthy, c.health, c.time AS produced,
       r.task, r.agentic, r.overall, r.cells, r.missing, r.time AS reported,
       coalesce(d.outcome, 'undecided') AS decision, d.baseline, d.best_so_far, d.best_overall, d.reasons,
       c.id AS checkpoint_event, r.id AS report_event, d.id AS decision_event
FROM checkpoint_produced c
LEFT JOIN evaluation_reported r ON r.campaign = c.campaign AND r.round = c.round
LEFT JOIN decisions d ON d.campaign = c.campaign AND d.round = c.round;
