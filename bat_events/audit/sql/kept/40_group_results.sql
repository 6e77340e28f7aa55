-- One row per group that was asked for, with how many of its rollouts ended how, and whether an update used it.
WITH used AS (
    SELECT DISTINCT campaign, unnest(list_transform(groups, lambda g: g."group")) AS group_id FROM steps WHERE counts
)
SELECT r.campaign, r.group_id, any_value(r.group_event) AS group_event, any_value(r.round) AS round,
       any_value(r.step) AS step, any_value(r.slot) AS slot, any_value(r.attempt) AS attempt,
       any_value(r.pool) AS pool, any_value(r.focus) AS focus, any_value(r.track) AS track,
       any_value(r.state) AS state, any_value(r.size) AS size,
       count(*) FILTER (r.status = 'scored') AS scored,
       count(*) FILTER (r.status = 'failed') AS failed,
       count(*) FILTER (r.status = 'withheld') AS withheld,
       count(*) FILTER (r.status IN ('sampling', 'judging')) AS unsettled,
       avg(r.reward) AS mean_reward, min(r.reward) AS lowest, max(r.reward) AS highest,
       string_agg(DISTINCT r.reason, ', ' ORDER BY r.reason) FILTER (r.reason IS NOT NULL) AS reasons,
       bool_or(u.group_id IS NOT NULL) AS trained
FROM rollout_results r
LEFT JOIN used u ON u.campaign = r.campaign AND u.group_id = r.group_id
GROUP BY r.campaign, r.group_id;
