-- Boundary crossings: every field of every record that crossed the evaluation boundary
-- One row per key, header and body field; list items share a row, with their count and range. Concludes: only numbers
-- rounded to 1e-4, flags, closed enums, keyed hashes and ids that already stand on an open topic crossed (no verdict
-- begins with NOT). Says nothing of other channels: the broker's access rules and the artefact stores are separate.
-- param only_violations: yes shows only what must not have crossed
-- param campaign: the campaign; the latest one when left out
SELECT j.topic, j."offset", j.place, j.path, j.verdict, j.n, j.lowest, j.highest, j.kind,
       j.type, j.time, j."partition", j.id
FROM judged_crossings j
WHERE (j.campaign IS NULL OR j.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign)))
  AND (coalesce($only_violations, 'no') <> 'yes' OR starts_with(j.verdict, 'NOT'))
ORDER BY j.topic, j."partition", j."offset", CASE j.place WHEN 'key' THEN 0 WHEN 'header' THEN 1 ELSE 2 END, j.path
