-- One row per cold start: the corpus that it was trained on, and what the gate had said of it.
SELECT c.campaign, c.id AS event, c.corpus, v.id AS verdict_event, v.cleared, v.blind,
       CASE WHEN v.id IS NULL THEN 'the leakage gate never scanned it'
            WHEN NOT v.cleared THEN 'the leakage gate refused it'
            WHEN b.id IS NOT NULL AND b.body <> v.body THEN 'the scan is of another artefact than the one built' END AS fault
FROM cold_start_completed c
LEFT JOIN gate_verdicts v ON v.campaign = c.campaign AND v.kind = 'corpus' AND v.subject = c.corpus
LEFT JOIN corpus_built b ON b.campaign = c.campaign AND b.corpus = c.corpus;
