-- Comparisons: each checkpoint beside its comparators, cell by cell
-- Paired differences with one-sided 80 % bounds. Concludes: a gain whose lower bound is above 0 is more than noise at
-- that level. Does not follow for a bound that crosses 0: neither a gain nor its absence is shown.
-- param campaign: the campaign; the latest one when left out
SELECT r.round, r.checkpoint, c.part.comparator AS comparator, c.part.complete AS complete,
       c.part.overall.n AS n, c.part.overall.mean AS overall, c.part.overall.deviation AS deviation,
       c.part.overall.lower80 AS lower80, c.part.overall.upper80 AS upper80, c.part.task.mean AS task,
       list_transform(c.part.stages, lambda x: x.stage || ' ' || round(x.effect.mean, 4)) AS stages
FROM evaluation_reported r, unnest(r.comparators) AS c(part)
WHERE r.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
ORDER BY r.round, comparator
