-- Bank diversity: how many of the synthesised states differ, and in what
-- Each part puts the states into classes of equal ones: prompt and workspace as they are; own prompt and own workspace
-- without published text, ids and paths; the same within a cell (what the bank refuses); the condition (cell and own prompt
-- without numbers); the cell. repeated counts states that have an equal one; entropy is that of the classes, in bits, beside
-- the most that so many states could have. Concludes: how often exactly equal work was asked for. Does not prove that
-- different states teach different things, and does not see likeness short of equality.
-- param admitted: yes for admitted states only; all synthesised ones when left out
-- param campaign: the campaign; the latest one when left out
SELECT d.part, d.states, d.without, d."distinct", d.distinct_share, d.repeated, d.smallest_class, d.largest_class,
       d.one_of_the_largest, d.entropy_bits, d.highest_entropy_bits
FROM bank_classes d
WHERE d.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign))
  AND d.admitted_only = (coalesce($admitted, 'no') = 'yes')
ORDER BY d.place
