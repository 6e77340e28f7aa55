-- Training steps; one that a rewind replaced no longer counts.
CREATE OR REPLACE VIEW steps AS
SELECT s.*, NOT EXISTS (
           SELECT 1 FROM training_rewound r
           WHERE r.campaign = s.campaign AND r.round = s.round AND r.step <= s.step AND r.attempt > s.attempt
       ) AS counts
FROM training_step_completed s;
