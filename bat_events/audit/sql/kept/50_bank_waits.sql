-- Per round, how long its plan waited for the bank after its target was prescribed, and what the bank made meanwhile.
WITH moments AS (
    SELECT id, campaign, type, round, subject, log_time, wall_s FROM events
    WHERE type IN ('TargetStagePrescribed', 'RoundPlanned', 'CheckpointProduced', 'StateAdmitted', 'StateRetired', 'StateSynthesized')
), rounds AS (
    SELECT t.campaign, p.round, p.target_stage, t.log_time AS prescribed, q.log_time AS planned, c.log_time AS produced
    FROM moments t JOIN target_stage_prescribed p ON p.id = t.id
    LEFT JOIN moments q ON q.campaign = t.campaign AND q.type = 'RoundPlanned' AND q.round = p.round
    LEFT JOIN moments c ON c.campaign = t.campaign AND c.type = 'CheckpointProduced' AND c.round = p.round
    WHERE t.type = 'TargetStagePrescribed'
), drawn AS (
    SELECT s.campaign, s.round, max(b.log_time) AS last_admitted, count(*) AS states,
           count(*) FILTER (b.log_time > r.prescribed) AS admitted_late
    FROM planned_slots s
    JOIN rounds r ON r.campaign = s.campaign AND r.round = s.round
    JOIN moments b ON b.campaign = s.campaign AND b.type = 'StateAdmitted' AND b.subject = s.state
    GROUP BY s.campaign, s.round
), waited AS (
    SELECT r.campaign, r.prescribed, r.planned, max(b.log_time) AS last
    FROM (SELECT DISTINCT campaign, prescribed, planned FROM rounds) r
    JOIN moments b ON b.campaign = r.campaign AND b.log_time > r.prescribed AND b.log_time <= r.planned
    WHERE b.type IN ('StateAdmitted', 'StateRetired')
    GROUP BY ALL
), made AS (
    SELECT r.campaign, r.planned, r.produced, count(*) AS states, sum(m.wall_s) AS wall_s
    FROM (SELECT DISTINCT campaign, planned, produced FROM rounds) r
    JOIN moments m ON m.campaign = r.campaign AND m.log_time > r.planned AND m.log_time <= r.produced
    WHERE m.type = 'StateSynthesized'
    GROUP BY ALL
)
SELECT r.campaign, r.round, r.target_stage, d.states AS states_drawn,
       round(epoch(r.planned - r.prescribed), 3) AS wait_s,
       CASE WHEN r.planned IS NOT NULL THEN round(coalesce(epoch(w.last - r.prescribed), 0), 3) END AS bank_wait_s,
       d.admitted_late, round(epoch(r.prescribed - d.last_admitted), 3) AS ahead_s,
       coalesce(m.states, 0) AS made_meanwhile, round(m.wall_s, 3) AS made_meanwhile_s, r.prescribed, r.planned
FROM rounds r
LEFT JOIN drawn d ON d.campaign = r.campaign AND d.round = r.round
LEFT JOIN waited w ON w.campaign = r.campaign AND w.prescribed = r.prescribed AND w.planned = r.planned
LEFT JOIN made m ON m.campaign = r.campaign AND m.planned = r.planned AND m.produced = r.produced
