-- Lineage, receipts: every rollout and tool call behind a checkpoint, with verdict and reward
-- One row per receipt of every rollout that the groups behind a checkpoint asked for, through all its parents; a rollout that
-- failed, or that made no call, has one row whose receipt is empty; the cold start has one row. trained: an update used it.
-- Concludes: which calls, with which code and on which workspace (by digest), stand behind each reward and so behind the
-- checkpoint; a failed rollout has no receipt and no reward, not a zero. Does not conclude: that the artefacts are still
-- there; evidence says whether they were read when the rollout was materialised. Durations are not recorded.
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
), behind AS (
    SELECT DISTINCT l.checkpoint, s.campaign, unnest(list_transform(s.groups, lambda g: g."group")) AS group_id
    FROM line l JOIN steps s ON s.campaign = l.campaign AND s.round = l.round AND s.step < l.steps AND s.counts
)
SELECT r.round, r.step, r.slot, r."index" AS rollout_index, r.status, r.reward, c."index" AS receipt, c."end" AS call_end,
       c.exit_code, c.changed_files, c.code_digest, c.workspace_before, c.workspace_after, c.code_bytes, c.stdout_bytes,
       c.stderr_bytes, c.code_follows, coalesce(r.evidence_status, 'none') AS evidence, r.trained,
       r.cleared, r.rollout, r.state, r.group_id, r.verdict_event, r.admission_event, r.rollout_event, r.reward_event,
       b.checkpoint
FROM behind b
JOIN rollout_lineage r ON r.campaign = b.campaign AND r.group_id = b.group_id
LEFT JOIN receipts c ON c.campaign = r.campaign AND c.event = r.rollout_event
UNION ALL
SELECT 0, NULL, NULL, NULL, 'cold start', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'none',
       true, u.cleared, NULL, NULL, NULL, u.verdict_event, NULL, NULL, NULL, l.checkpoint
FROM line l JOIN cold_start_completed c ON c.campaign = l.campaign AND c.checkpoint = l.checkpoint
LEFT JOIN corpus_uses u ON u.campaign = c.campaign AND u.event = c.id
WHERE l.round = 0
ORDER BY 1, 2 NULLS FIRST, 3, 23, 4, 7
