-- Promotions and holds as one list; next_checkpoint is where the round after starts.
CREATE OR REPLACE VIEW decisions AS
SELECT id, campaign, time, round, checkpoint, 'promoted' AS outcome, baseline, mode, overall,
       best_so_far, best_overall, checkpoint AS next_checkpoint, checks, reasons
FROM checkpoint_promoted
UNION ALL
SELECT id, campaign, time, round, checkpoint, 'held', false, mode, overall,
       best_so_far, best_overall, fallback, checks, reasons
FROM checkpoint_held;
