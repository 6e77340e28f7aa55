-- Failures: in which share of the held-out cells each kind of failure fired, by round, stage and code
-- E1 hallucinated resource, E2 time or resources, E3 logic or no work, E4 exception, E5 format. Shares are of the report's
-- cells and need not add up to 1: a cell may fail in several stages. recorded is false for a report of a time when
-- failures were not recorded; a recorded report without a code had none. Concludes: where a checkpoint loses cells and
-- in which way. Does not follow: what a failure cost, or that two shares differ by more than noise.
-- param campaign: the campaign; the latest one when left out
-- param stage: S1 to S5; all when left out
SELECT r.round, r.checkpoint, f.part.stage AS stage, f.part.code AS code,
       CASE f.part.code WHEN 'E1' THEN 'hallucinated resource' WHEN 'E2' THEN 'time or resources'
                        WHEN 'E3' THEN 'logic or no work' WHEN 'E4' THEN 'exception' WHEN 'E5' THEN 'format' END AS meaning,
       f.part.cells AS cells, r.cells AS of_cells, round(f.part.cells / r.cells, 4) AS share,
       r.failures IS NOT NULL AS recorded
FROM evaluation_reported r LEFT JOIN unnest(r.failures) AS f(part) ON true
WHERE r.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
  AND ($stage IS NULL OR f.part.stage = $stage)
ORDER BY r.round, stage, code
