-- What the gate and the bank said of each state that was asked for: the part of `states` that lineage needs.
SELECT q.campaign, q.state, q.outcome, v.cleared, a.rank, v.id AS verdict_event, a.id AS admission_event
FROM synthesis_requested q
LEFT JOIN leakage_verdict v ON v.campaign = q.campaign AND v.state = q.state
LEFT JOIN state_admitted a ON a.campaign = q.campaign AND a.state = q.state;
