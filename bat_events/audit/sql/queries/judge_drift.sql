-- Judge drift: how strict each model was about each item, round after round
-- mean is of what the model gave; room how much of what the evidence allows it gave, on average; since_first its change
-- against that judge's first round. Concludes: where one judge grows milder while the other does not, practice may have
-- learned to please it (or its server serves other weights): look at the judgements. Both rising together, and the
-- evidence with them, is what learning looks like. The first judge is seen on every rollout, the shadow on its sample.
-- param campaign: the campaign; the latest one when left out
SELECT item, role, judge, model, round, asked, mean, evidence_mean, room,
       room - first_value(room) OVER (PARTITION BY item, role, judge, model ORDER BY round) AS since_first
FROM judge_rounds
WHERE campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
ORDER BY item, role, model, round
