-- Judge drift: how strict each model was about each item, round after round
-- mean is of what the model gave; room how much of what the evidence allows it gave, on average; since_first its change
-- against that judge's first round. Concludes: where one judge grows milder while the other does not, practice may have
-- learned to please it (or its server serves other weights): look at the judgements. Both rising together, and the
-- evidence with them, is what learning looks like. The first judge is seen on every rollout, the shadow on its sample.
-- param campaign: the campaign; the latest one when left out
WITH said AS (
    SELECT s.campaign, s.round, 'first' AS role, s.judge, s.model, t.part AS part
    FROM reward_scored s, unnest(s.texts) AS t(part)
    UNION ALL
    SELECT h.campaign, h.round, 'shadow', h.judge, h.model, t.part
    FROM reward_shadowed h, unnest(h.texts) AS t(part)
), by_round AS (
    SELECT role, judge, model, part.item AS item, round, count(*) AS asked, avg(part.asked) AS mean,
           avg(part.cap) AS evidence_mean, avg(least(part.asked, part.cap) / part.cap) AS room
    FROM said
    WHERE campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign)) AND part.cap > 0
    GROUP BY ALL
)
SELECT item, role, judge, model, round, asked, mean, evidence_mean, room,
       room - first_value(room) OVER (PARTITION BY item, role, judge, model ORDER BY round) AS since_first
FROM by_round
ORDER BY item, role, model, round
