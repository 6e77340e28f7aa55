-- Evaluation: the held-out reports, stage by stage
-- Two readings of each stage: its mean over all cells (an unreached stage counts 0) and over the cells that reached it.
-- Concludes: how a checkpoint was measured. Differences between rows are noise unless comparisons says otherwise.
-- param campaign: the campaign; the latest one when left out
SELECT r.round, r.checkpoint, r.task, r.agentic, r.overall, r.cells, r.missing, s.part.stage AS stage,
       s.part.mean AS mean, s.part.cells AS stage_cells, s.part.reached_mean AS reached_mean, s.part.reached_cells AS reached_cells
FROM evaluation_reported r LEFT JOIN unnest(r.stages) AS s(part) ON true
WHERE r.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
ORDER BY r.round, stage
