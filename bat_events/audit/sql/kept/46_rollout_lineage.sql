-- One row per rollout that was asked for, with its verdict, its reward, and whether an update used it: what receipts belong to.
WITH used AS (
    SELECT DISTINCT campaign, rollout FROM training_lineage WHERE counts
)
SELECT r.campaign, r.group_id, r.round, r.step, r.slot, r."index", r.status, r.reward, r.rollout, r.state,
       r.rollout_event, r.reward_event, e.status AS evidence_status, u.rollout IS NOT NULL AS trained,
       s.cleared, s.verdict_event, s.admission_event
FROM rollout_results r
LEFT JOIN rollout_evidence e ON e.campaign = r.campaign AND e.event = r.rollout_event
LEFT JOIN used u ON u.campaign = r.campaign AND u.rollout = r.rollout
LEFT JOIN state_standing s ON s.campaign = r.campaign AND s.state = r.state
