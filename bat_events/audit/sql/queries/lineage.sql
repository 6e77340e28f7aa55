-- Lineage: everything that a checkpoint was trained on, through all its parents
-- One row per training row (and one for the cold start): rollout, reward, state, and the verdict that let the state in.
-- Concludes: every row goes back to an admitted state with a cleared verdict and to a reward that the log holds
-- (complete is yes); receipts counts its tool calls, empty where its evidence could not be read. Evidence and bodies are
-- artefacts, named by digest; what the cold start saw is its corpus, whose rows stand in no event (complete is empty).
-- lineage_receipts goes on from here to each rollout that was asked for and each receipt.
-- param checkpoint: the beginning of a checkpoint's digest; the best so far when left out
-- param campaign: the campaign; the latest one when left out
WITH wanted AS (
    SELECT c.campaign, c.checkpoint, c.round FROM checkpoint_produced c
    WHERE c.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
      AND starts_with(c.checkpoint, coalesce($checkpoint, (
          SELECT d.best_so_far FROM decisions d WHERE d.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
          ORDER BY d.round DESC LIMIT 1), ''))
    ORDER BY c.round DESC LIMIT 1
), line AS MATERIALIZED (
    SELECT a.campaign, a.round, a.checkpoint, a.parent, a.steps
    FROM ancestry a JOIN wanted w ON w.campaign = a.campaign AND w.checkpoint = a.of_checkpoint AND w.round = a.of_round
)
SELECT l.round, 'rollout' AS kind, t.step, t.slot, t.focus, t.track, t.reward, t.advantage, t.complete, t.receipts,
       t.rollout, t.state, t.verdict_event, t.reward_event, t.rollout_event, t.evidence, t.judge,
       t.outcome, t.cleared, t.rank AS admitted_rank, t.pool, t.group_id, t.step_event, l.checkpoint
FROM line l
JOIN training_lineage t ON t.campaign = l.campaign AND t.round = l.round AND t.step < l.steps AND t.counts
UNION ALL
SELECT l.round, 'cold start', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, u.verdict_event, NULL, NULL, c.corpus, c.trainer,
       NULL, u.cleared, NULL, NULL, NULL, c.id, l.checkpoint
FROM line l JOIN cold_start_completed c ON c.campaign = l.campaign AND c.checkpoint = l.checkpoint
LEFT JOIN corpus_uses u ON u.campaign = c.campaign AND u.event = c.id
WHERE l.round = 0
ORDER BY 1, 3 NULLS FIRST, 4, 11
