-- Bank wait: whether a round had to wait for its states, and what was made for the next one meanwhile
-- bank_wait_s is the time from a round's prescription to the last admission or retirement before its plan, 0 where there
-- was none in between: the bank then had everything when the target became known, and wait_s is the planner's own. ahead_s
-- says how long before the prescription the last state that the round draws was admitted. made_meanwhile counts states
-- synthesised between the plan and the round's candidate. Concludes: from round 2 on, whether the bank kept one round ahead
-- (bank_wait_s 0) while it worked (made_meanwhile above 0). Round 1 has no round before it to work behind: only the cold
-- start and the first evaluation. Times are those that the producers of one host wrote.
-- param campaign: the campaign; the latest one when left out
WITH mine AS (
    SELECT * FROM events WHERE campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
), rounds AS (
    SELECT p.round, p.target_stage, t.log_time AS prescribed, q.log_time AS planned, c.log_time AS produced
    FROM mine t JOIN target_stage_prescribed p ON p.id = t.id
    LEFT JOIN mine q ON q.type = 'RoundPlanned' AND q.round = p.round
    LEFT JOIN mine c ON c.type = 'CheckpointProduced' AND c.round = p.round
), bank AS (
    SELECT type, subject AS state, log_time FROM mine WHERE type IN ('StateAdmitted', 'StateRetired')
), drawn AS (
    SELECT s.round, max(b.log_time) AS last_admitted, count(*) AS states,
           count(*) FILTER (b.log_time > r.prescribed) AS admitted_late
    FROM planned_slots s
    JOIN rounds r ON r.round = s.round
    JOIN bank b ON b.type = 'StateAdmitted' AND b.state = s.state
    WHERE s.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
    GROUP BY s.round
)
SELECT r.round, r.target_stage, d.states AS states_drawn,
       round(epoch(r.planned - r.prescribed), 3) AS wait_s,
       CASE WHEN r.planned IS NOT NULL THEN round(coalesce((
           SELECT epoch(max(b.log_time) - r.prescribed) FROM bank b
           WHERE b.log_time > r.prescribed AND b.log_time <= r.planned), 0), 3) END AS bank_wait_s,
       d.admitted_late, round(epoch(r.prescribed - d.last_admitted), 3) AS ahead_s,
       (SELECT count(*) FROM mine m WHERE m.type = 'StateSynthesized'
           AND m.log_time > r.planned AND m.log_time <= r.produced) AS made_meanwhile,
       (SELECT round(sum(m.wall_s), 3) FROM mine m WHERE m.type = 'StateSynthesized'
           AND m.log_time > r.planned AND m.log_time <= r.produced) AS made_meanwhile_s,
       r.prescribed, r.planned
FROM rounds r LEFT JOIN drawn d ON d.round = r.round
ORDER BY r.round
