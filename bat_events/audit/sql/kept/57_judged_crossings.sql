-- Every field that crossed the evaluation boundary with a verdict, which begins with NOT where it must not have crossed.
SELECT c.*,
       CASE WHEN NOT c.permitted THEN 'NOT PERMITTED: ' || coalesce(c.note, c.kind)
            WHEN c.kind = 'campaign' AND NOT EXISTS (
                SELECT 1 FROM campaign_started s WHERE s.campaign = c.highest) THEN 'NOT an open campaign'
            WHEN c.place = 'body' AND c.kind = 'id' AND c.type = 'SharedTextDeclared' AND c.path = 'texts'
                THEN 'digest of shared text'
            WHEN c.place = 'body' AND c.kind = 'id' AND c.type IN (
                'HeldoutFingerprintsPublished', 'HeldoutNgramsPublished', 'SharedTextDeclared',
                'HeldoutMeaningsPublished') THEN 'keyed hash'
            WHEN c.place = 'body' AND c.kind = 'id' AND EXISTS (
                SELECT 1 FROM unnest(c.sample) AS x(digest)
                WHERE x.digest NOT IN (SELECT p.checkpoint FROM checkpoint_produced p)) THEN 'NOT on an open topic'
            WHEN c.place = 'body' AND c.kind = 'id' THEN 'id on an open topic'
            WHEN c.place = 'body' THEN c.kind
            ELSE 'known ' || c.place END AS verdict
FROM crossings c;
