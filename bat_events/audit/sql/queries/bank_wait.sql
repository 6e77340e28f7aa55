-- Bank wait: whether a round had to wait for its states, and what was made for the next one meanwhile
-- bank_wait_s is the time from a round's prescription to the last admission or retirement before its plan, 0 where there
-- was none in between: the bank then had everything when the target became known, and wait_s is the planner's own. ahead_s
-- says how long before the prescription the last state that the round draws was admitted. made_meanwhile counts states
-- synthesised between the plan and the round's candidate. Concludes: from round 2 on, whether the bank kept one round ahead
-- (bank_wait_s 0) while it worked (made_meanwhile above 0). Round 1 has no round before it to work behind: only the cold
-- start and the first evaluation. Times are those that the producers of one host wrote.
-- param campaign: the campaign; the latest one when left out
SELECT w.round, w.target_stage, w.states_drawn, w.wait_s, w.bank_wait_s, w.admitted_late, w.ahead_s,
       w.made_meanwhile, w.made_meanwhile_s, w.prescribed, w.planned
FROM bank_waits w
WHERE w.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
ORDER BY w.round
