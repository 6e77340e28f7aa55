-- Curriculum: which stage was prescribed for each round, from which readings
-- Concludes: what the teacher read of each stage and what it chose. A reading that is missing was reached by no cell.
-- Does not say whether the practice helped (evaluation).
-- param campaign: the campaign; the latest one when left out
SELECT t.round, t.target_stage, t.corrective, t.rule, t.reason,
       list_transform(t.readings, lambda x: x.stage || ' ' || coalesce(round(x.value, 4)::VARCHAR, 'none')) AS readings,
       t.start_checkpoint, t.time, t.id
FROM target_stage_prescribed t
WHERE t.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
ORDER BY t.round
