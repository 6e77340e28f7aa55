-- Bank diversity: how many of the synthesised states differ, and in what
-- Each part puts the states into classes of equal ones: prompt and workspace as they are; own prompt and own workspace
-- without published text, ids and paths; the same within a cell (what the bank refuses); the condition (cell and own prompt
-- without numbers); the cell. repeated counts states that have an equal one; entropy is that of the classes, in bits, beside
-- the most that so many states could have. Concludes: how often exactly equal work was asked for. Does not prove that
-- different states teach different things, and does not see likeness short of equality.
-- param admitted: yes for admitted states only; all synthesised ones when left out
-- param campaign: the campaign; the latest one when left out
WITH made AS (
    SELECT *, concat_ws('/', focus, track, outcome) AS cell FROM states
    WHERE campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign)) AND state_event IS NOT NULL
      AND (coalesce($admitted, 'no') <> 'yes' OR admission_event IS NOT NULL)
), parts AS (
    SELECT 1 AS place, 'prompt' AS part, state, prompt_digest AS class FROM made
    UNION ALL SELECT 2, 'own prompt', state, own_prompt FROM made
    UNION ALL SELECT 3, 'own prompt in its cell', state, cell || own_prompt FROM made
    UNION ALL SELECT 4, 'workspace', state, workspace_digest FROM made
    UNION ALL SELECT 5, 'own workspace', state, own_workspace FROM made
    UNION ALL SELECT 6, 'own workspace in its cell', state, cell || own_workspace FROM made
    UNION ALL SELECT 7, 'condition', state, condition FROM made
    UNION ALL SELECT 8, 'cell', state, cell FROM made
), classes AS (
    SELECT place, part, class, count(*) AS n, min(state) AS example FROM parts GROUP BY place, part, class
)
SELECT part, sum(n) FILTER (class IS NOT NULL) AS states, coalesce(sum(n) FILTER (class IS NULL), 0) AS without,
       count(class) AS "distinct", round(count(class) / sum(n) FILTER (class IS NOT NULL), 4) AS distinct_share,
       coalesce(sum(n) FILTER (class IS NOT NULL AND n > 1), 0) AS repeated,
       min(n) FILTER (class IS NOT NULL) AS smallest_class, max(n) FILTER (class IS NOT NULL) AS largest_class,
       arg_max(example, n) FILTER (class IS NOT NULL) AS one_of_the_largest,
       round(log2(sum(n) FILTER (class IS NOT NULL))
             - sum(n * log2(n)) FILTER (class IS NOT NULL) / sum(n) FILTER (class IS NOT NULL), 3) AS entropy_bits,
       round(log2(sum(n) FILTER (class IS NOT NULL)), 3) AS highest_entropy_bits
FROM classes GROUP BY place, part ORDER BY place
