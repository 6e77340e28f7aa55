-- Training steps; one that a rewind replaced no longer counts.
CREATE OR REPLACE VIEW steps AS
WITH replaced AS (
    SELECT DISTINCT s.id
    FROM training_step_completed s
    JOIN training_rewound r ON r.campaign = s.campaign AND r.round = s.round AND r.step <= s.step AND r.attempt > s.attempt
)
SELECT s.*, x.id IS NULL AS counts
FROM training_step_completed s LEFT JOIN replaced x ON x.id = s.id;
