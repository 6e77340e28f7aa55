-- How many held-out fingerprints each campaign's evaluator published, and how many each verdict says it was held against.
CREATE OR REPLACE VIEW published_fingerprints AS
SELECT h.campaign, arg_min(len(h.fingerprints), h.time) AS exact, arg_min(n.window_count, n.time) AS windows,
       arg_min(n.sketch_count, n.time) AS sketches
FROM heldout_fingerprints_published h
JOIN heldout_ngrams_published n ON n.campaign = h.campaign
JOIN shared_text_declared s ON s.campaign = h.campaign
GROUP BY h.campaign;

CREATE OR REPLACE VIEW gate_verdicts AS
WITH said AS (
    SELECT id, campaign, time, 'state' AS kind, state AS subject, body, cleared, checks FROM leakage_verdict
    UNION ALL
    SELECT id, campaign, time, 'corpus', corpus, body, cleared AND rows > 0, checks FROM corpus_scanned
), parts AS (
    SELECT id, unnest(checks) AS part FROM said
), counted AS (
    SELECT id,
           max(CASE WHEN part.name = 'exact_match' THEN
               TRY_CAST(regexp_extract(part.evidence, '^([0-9]+) fingerprints looked for', 1) AS BIGINT) END) AS exact,
           max(CASE WHEN part.name = 'ngram_run' THEN
               TRY_CAST(regexp_extract(part.evidence, '^([0-9]+) runs of 8 words looked for', 1) AS BIGINT) END) AS windows,
           max(CASE WHEN part.name = 'near_duplicate' THEN
               TRY_CAST(regexp_extract(part.evidence, '^([0-9]+) sketches compared', 1) AS BIGINT) END) AS sketches
    FROM parts WHERE part.name IN ('exact_match', 'ngram_run', 'near_duplicate') GROUP BY id
)
SELECT s.id, s.campaign, s.time, s.kind, s.subject, s.body, s.cleared, c.exact, c.windows, c.sketches,
       CASE WHEN p.campaign IS NULL THEN 'no held-out fingerprints are on the log'
            WHEN coalesce(c.exact, 0) = 0 OR c.windows IS NULL OR c.sketches IS NULL
                THEN 'the verdict was given without held-out fingerprints'
            WHEN c.exact <> p.exact OR c.windows <> p.windows OR c.sketches <> p.sketches
                THEN 'the verdict was given against other fingerprints than those published' END AS blind
FROM said s LEFT JOIN counted c ON c.id = s.id LEFT JOIN published_fingerprints p ON p.campaign = s.campaign;
