-- One row per practice state that the bank asked for, with how far it came.
CREATE OR REPLACE VIEW states AS
WITH used AS (
    SELECT campaign, state, min(round) AS round, max(round) AS last_round, count(*) AS slots
    FROM planned_slots GROUP BY campaign, state
), trained AS (
    SELECT DISTINCT campaign, unnest(list_transform(groups, lambda g: g."group")) AS group_id FROM steps WHERE counts
), rewarded AS (
    SELECT campaign, "group" AS group_id, count(*) AS rewards FROM reward_scored GROUP BY ALL
), practised AS (
    SELECT q.campaign, q.state, count(*) AS groups, coalesce(sum(r.rewards), 0) AS scored,
           bool_or(t.group_id IS NOT NULL) AS trained
    FROM group_requested q
    LEFT JOIN rewarded r ON r.campaign = q.campaign AND r.group_id = q."group"
    LEFT JOIN trained t ON t.campaign = q.campaign AND t.group_id = q."group"
    GROUP BY ALL
)
SELECT q.campaign, q.state, q.focus, q.track, q.outcome, q.ordinal,
       CASE WHEN coalesce(p.trained, false) THEN 'trained'
            WHEN u.state IS NOT NULL THEN 'planned'
            WHEN a.id IS NOT NULL THEN 'admitted'
            WHEN r.id IS NOT NULL THEN 'refused'
            WHEN v.cleared THEN 'cleared'
            WHEN v.id IS NOT NULL THEN 'rejected'
            WHEN s.id IS NOT NULL THEN 'synthesised'
            WHEN f.id IS NOT NULL THEN 'failed'
            ELSE 'requested' END AS status,
       s.body, s.body_bytes, s.prompt_digest, s.workspace_digest, f.reason AS failure,
       v.cleared, v.checks, a.rank, u.round AS planned_round, u.slots, p.groups, p.scored,
       q.id AS request_event, s.id AS state_event, v.id AS verdict_event, a.id AS admission_event,
       s.own_prompt, s.own_workspace, s.condition, s.wording, r.id AS refusal_event, r.reason AS refused_for, r.copy_of,
       x.id AS retirement_event, x.round AS retired_round, x.uses, u.last_round AS last_planned_round
FROM synthesis_requested q
LEFT JOIN state_synthesized s ON s.campaign = q.campaign AND s.state = q.state
LEFT JOIN synthesis_failed f ON f.campaign = q.campaign AND f.state = q.state
LEFT JOIN leakage_verdict v ON v.campaign = q.campaign AND v.state = q.state
LEFT JOIN state_admitted a ON a.campaign = q.campaign AND a.state = q.state
LEFT JOIN state_refused r ON r.campaign = q.campaign AND r.state = q.state
LEFT JOIN state_retired x ON x.campaign = q.campaign AND x.state = q.state
LEFT JOIN used u ON u.campaign = q.campaign AND u.state = q.state
LEFT JOIN practised p ON p.campaign = q.campaign AND p.state = q.state;
