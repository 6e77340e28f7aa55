-- One row per training row with what it goes back to. `complete` is whether every link stands on the log.
CREATE OR REPLACE VIEW training_lineage AS
SELECT t.campaign, t.round, t.step, t.slot, t.counts, t.pool, t.group_id, t.rollout, t.reward, t.advantage, t.step_event,
       p.state, p.body, r.focus, r.track, r.judge, r.evidence, r.rollout_event, r.reward_event,
       s.outcome, s.cleared, s.rank, s.verdict_event, s.admission_event,
       e.status AS evidence_status, e.receipts,
       coalesce(s.cleared AND s.admission_event IS NOT NULL AND r.status = 'scored' AND r.reward = t.reward
                AND p.state = r.state, false) AS complete
FROM training_rows t
LEFT JOIN planned_slots p ON p.campaign = t.campaign AND p.round = t.round AND p.step = t.step AND p.slot = t.slot
LEFT JOIN rollout_results r ON r.campaign = t.campaign AND r.rollout = t.rollout
LEFT JOIN states s ON s.campaign = t.campaign AND s.state = p.state
LEFT JOIN rollout_evidence e ON e.campaign = t.campaign AND e.event = r.rollout_event;
