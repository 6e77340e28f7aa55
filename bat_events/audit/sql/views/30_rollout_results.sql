-- One row per rollout that was asked for, with what became of it; a reward of NULL is missing, not zero.
CREATE OR REPLACE VIEW rollout_results AS
WITH asked AS (
    SELECT q.*, unnest(range(q.size)) AS number FROM group_requested q
)
SELECT a.campaign, a."group" AS group_id, a.round, a.step, a.slot, a.attempt, a.pool, a.focus, a.track, a.state,
       a.size, a.number AS "index", a.id AS group_event,
       CASE WHEN f.id IS NOT NULL THEN 'failed'
            WHEN c.id IS NULL THEN 'sampling'
            WHEN w.id IS NOT NULL THEN 'withheld'
            WHEN s.id IS NULL THEN 'judging'
            ELSE 'scored' END AS status,
       coalesce(c.rollout, f.rollout) AS rollout, s.reward, s.raw, s.cap, s.task_score, s.judge,
       c."end" AS ended, c.turns, c.valid_actions, c.prompt_tokens, c.response_tokens, c.evidence,
       coalesce(f.reason, w.reason) AS reason, coalesce(f.detail, w.detail) AS detail,
       coalesce(c.id, f.id) AS rollout_event, coalesce(s.id, w.id) AS reward_event
FROM asked a
LEFT JOIN rollout_completed c ON c.campaign = a.campaign AND c."group" = a."group" AND c."index" = a.number
LEFT JOIN rollout_failed f ON f.campaign = a.campaign AND f."group" = a."group" AND f."index" = a.number
LEFT JOIN reward_scored s ON s.campaign = a.campaign AND s."group" = a."group" AND s."index" = a.number
LEFT JOIN reward_withheld w ON w.campaign = a.campaign AND w."group" = a."group" AND w."index" = a.number;
