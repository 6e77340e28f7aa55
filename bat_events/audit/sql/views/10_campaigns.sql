-- Campaigns of this namespace with how they ended; the latest one is what queries show unless told otherwise.
CREATE OR REPLACE VIEW campaigns AS
SELECT s.campaign, s.time AS started, s.plan.rounds AS rounds_planned, s.package_version,
       f.outcome, f.rounds AS rounds_done, f.best_checkpoint, f.time AS finished
FROM campaign_started s LEFT JOIN campaign_finished f ON f.campaign = s.campaign;

CREATE OR REPLACE VIEW latest_campaign AS
SELECT campaign FROM campaign_started ORDER BY time DESC, id LIMIT 1;
