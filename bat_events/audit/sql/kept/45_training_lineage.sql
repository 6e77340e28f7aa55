-- One row per training row with what it goes back to. `complete` is whether every link stands on the log.
SELECT t.campaign, t.round, t.step, t.slot, t.counts, t.pool, t.group_id, t.rollout, t.reward, t.advantage, t.step_event,
       p.state, p.body, q.focus, q.track, d.judge, c.evidence, c.id AS rollout_event, coalesce(d.id, w.id) AS reward_event,
       s.outcome, s.cleared, s.rank, s.verdict_event, s.admission_event,
       e.status AS evidence_status, e.receipts,
       coalesce(s.cleared AND s.admission_event IS NOT NULL AND c.id IS NOT NULL AND f.id IS NULL AND w.id IS NULL
                AND d.reward = t.reward AND p.state = q.state, false) AS complete
FROM training_rows t
LEFT JOIN planned_slots p ON p.campaign = t.campaign AND p.round = t.round AND p.step = t.step AND p.slot = t.slot
LEFT JOIN rollout_completed c ON c.campaign = t.campaign AND c.rollout = t.rollout
LEFT JOIN rollout_failed f ON f.campaign = t.campaign AND f.rollout = t.rollout
LEFT JOIN reward_scored d ON d.campaign = c.campaign AND d."group" = c."group" AND d."index" = c."index"
LEFT JOIN reward_withheld w ON w.campaign = c.campaign AND w."group" = c."group" AND w."index" = c."index"
LEFT JOIN group_requested q ON q.campaign = c.campaign AND q."group" = c."group" AND c."index" < q.size
LEFT JOIN state_standing s ON s.campaign = t.campaign AND s.state = p.state
LEFT JOIN rollout_evidence e ON e.campaign = t.campaign AND e.event = c.id;
