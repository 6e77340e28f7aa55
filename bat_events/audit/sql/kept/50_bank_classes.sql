-- How many of the synthesised states differ, and in what: of all, and of the admitted ones only.
WITH made AS MATERIALIZED (
    SELECT s.campaign, s.state, s.prompt_digest, s.own_prompt, s.workspace_digest, s.own_workspace, s.condition,
           concat_ws('/', q.focus, q.track, q.outcome) AS cell,
           EXISTS (SELECT 1 FROM state_admitted a WHERE a.campaign = s.campaign AND a.state = s.state) AS admitted
    FROM state_synthesized s JOIN synthesis_requested q ON q.campaign = s.campaign AND q.state = s.state
), counted AS (
    SELECT 1 AS place, 'prompt' AS part, campaign, prompt_digest AS class, count(*) AS n, min(state) AS example,
           count(*) FILTER (admitted) AS n_admitted, min(state) FILTER (admitted) AS example_admitted
    FROM made GROUP BY campaign, prompt_digest
    UNION ALL
    SELECT 2, 'own prompt', campaign, own_prompt, count(*), min(state), count(*) FILTER (admitted), min(state) FILTER (admitted)
    FROM made GROUP BY campaign, own_prompt
    UNION ALL
    SELECT 3, 'own prompt in its cell', campaign, own_prompt, count(*), min(state), count(*) FILTER (admitted), min(state) FILTER (admitted)
    FROM made GROUP BY campaign, own_prompt, cell
    UNION ALL
    SELECT 4, 'workspace', campaign, workspace_digest, count(*), min(state), count(*) FILTER (admitted), min(state) FILTER (admitted)
    FROM made GROUP BY campaign, workspace_digest
    UNION ALL
    SELECT 5, 'own workspace', campaign, own_workspace, count(*), min(state), count(*) FILTER (admitted), min(state) FILTER (admitted)
    FROM made GROUP BY campaign, own_workspace
    UNION ALL
    SELECT 6, 'own workspace in its cell', campaign, own_workspace, count(*), min(state), count(*) FILTER (admitted), min(state) FILTER (admitted)
    FROM made GROUP BY campaign, own_workspace, cell
    UNION ALL
    SELECT 7, 'condition', campaign, condition, count(*), min(state), count(*) FILTER (admitted), min(state) FILTER (admitted)
    FROM made GROUP BY campaign, condition
    UNION ALL
    SELECT 8, 'cell', campaign, cell, count(*), min(state), count(*) FILTER (admitted), min(state) FILTER (admitted)
    FROM made GROUP BY campaign, cell
), classes AS (
    SELECT campaign, place, part, false AS admitted_only, class, n, example FROM counted
    UNION ALL
    SELECT campaign, place, part, true, class, n_admitted, example_admitted FROM counted WHERE n_admitted > 0
)
SELECT campaign, admitted_only, place, part, sum(n) FILTER (class IS NOT NULL) AS states,
       coalesce(sum(n) FILTER (class IS NULL), 0) AS without,
       count(class) AS "distinct", round(count(class) / sum(n) FILTER (class IS NOT NULL), 4) AS distinct_share,
       coalesce(sum(n) FILTER (class IS NOT NULL AND n > 1), 0) AS repeated,
       min(n) FILTER (class IS NOT NULL) AS smallest_class, max(n) FILTER (class IS NOT NULL) AS largest_class,
       (min({size: -n, example: example}) FILTER (class IS NOT NULL)).example AS one_of_the_largest,
       round(log2(sum(n) FILTER (class IS NOT NULL))
             - sum(n * log2(n)) FILTER (class IS NOT NULL) / sum(n) FILTER (class IS NOT NULL), 3) AS entropy_bits,
       round(log2(sum(n) FILTER (class IS NOT NULL)), 3) AS highest_entropy_bits
FROM classes GROUP BY campaign, admitted_only, place, part
