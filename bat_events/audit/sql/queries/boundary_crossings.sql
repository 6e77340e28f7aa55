-- Boundary crossings: every field of every record that crossed the evaluation boundary
-- One row per key, header and body field; list items share a row, with their count and range. Concludes: only numbers
-- rounded to 1e-4, flags, closed enums, keyed hashes and ids that already stand on an open topic crossed (no verdict
-- begins with NOT). Says nothing of other channels: the broker's access rules and the artefact stores are separate.
-- param only_violations: yes shows only what must not have crossed
-- param campaign: the campaign; the latest one when left out
WITH judged AS (
    SELECT c.*,
           CASE WHEN NOT c.permitted THEN 'NOT PERMITTED: ' || coalesce(c.note, c.kind)
                WHEN c.kind = 'campaign' AND NOT EXISTS (
                    SELECT 1 FROM campaign_started s WHERE s.campaign = c.highest) THEN 'NOT an open campaign'
                WHEN c.place = 'body' AND c.kind = 'id' AND c.type = 'SharedTextDeclared' AND c.path = 'texts'
                    THEN 'digest of shared text'
                WHEN c.place = 'body' AND c.kind = 'id' AND c.type IN (
                    'HeldoutFingerprintsPublished', 'HeldoutNgramsPublished', 'SharedTextDeclared') THEN 'keyed hash'
                WHEN c.place = 'body' AND c.kind = 'id' AND EXISTS (
                    SELECT 1 FROM unnest(c.sample) AS x(digest)
                    WHERE x.digest NOT IN (SELECT p.checkpoint FROM checkpoint_produced p)) THEN 'NOT on an open topic'
                WHEN c.place = 'body' AND c.kind = 'id' THEN 'id on an open topic'
                WHEN c.place = 'body' THEN c.kind
                ELSE 'known ' || c.place END AS verdict
    FROM crossings c
)
SELECT j.topic, j."offset", j.place, j.path, j.verdict, j.n, j.lowest, j.highest, j.kind,
       j.type, j.time, j."partition", j.id
FROM judged j
WHERE (j.campaign IS NULL OR j.campaign = coalesce($campaign, (SELECT campaign FROM latest_campaign)))
  AND (coalesce($only_violations, 'no') <> 'yes' OR starts_with(j.verdict, 'NOT'))
ORDER BY j.topic, j."partition", j."offset", CASE j.place WHEN 'key' THEN 0 WHEN 'header' THEN 1 ELSE 2 END, j.path
