-- Tables that do not follow from event types. Times are UTC.
CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL);
COMMENT ON TABLE meta IS 'What made this file: format, views, namespace.';

CREATE TABLE offsets (
    topic VARCHAR, "partition" INTEGER, next_offset BIGINT, updated TIMESTAMP,
    PRIMARY KEY (topic, "partition")
);
COMMENT ON TABLE offsets IS 'How far each partition was materialised, written in the same transaction as its rows.';

CREATE TABLE events (
    id VARCHAR, type VARCHAR, version INTEGER,
    topic VARCHAR, "partition" INTEGER, "offset" BIGINT,
    campaign VARCHAR, round BIGINT, cause VARCHAR, ordinal BIGINT, logic VARCHAR,
    time TIMESTAMP, log_time TIMESTAMP, source VARCHAR, subject VARCHAR,
    body_digest VARCHAR, schema_digest VARCHAR, traceparent VARCHAR, cut JSON,
    wall_s DOUBLE, device_s DOUBLE, sandbox_s DOUBLE, tokens_in BIGINT, tokens_out BIGINT, bytes_out BIGINT,
    call_s DOUBLE[],
    body_bytes BIGINT, id_follows BOOLEAN,
    maker VARCHAR, copied_from VARCHAR, copied_offset BIGINT
);
COMMENT ON TABLE events IS 'The envelope of every event, once per id: the first committed one.';
COMMENT ON COLUMN events.time IS 'ce_time: a decision carries its newest input''s time';
COMMENT ON COLUMN events.log_time IS 'when the log took it';
COMMENT ON COLUMN events.wall_s IS 'seconds; NULL where it was not measured, as all cost columns';
COMMENT ON COLUMN events.call_s IS 'seconds of each call of a rollout, in the order of its receipts';
COMMENT ON COLUMN events.id_follows IS 'whether the id is the one that maker, cause, type and ordinal give';
COMMENT ON COLUMN events.maker IS 'the campaign that made it: another than campaign for a copy in a fork';
COMMENT ON COLUMN events.copied_from IS 'the campaign whose log a copy was taken from, and its offset there (same topic and partition); NULL for own events';

CREATE TABLE duplicates (
    id VARCHAR, type VARCHAR, topic VARCHAR, "partition" INTEGER, "offset" BIGINT, campaign VARCHAR, time TIMESTAMP,
    first_topic VARCHAR, first_partition INTEGER, first_offset BIGINT, same_body BOOLEAN
);
COMMENT ON TABLE duplicates IS 'Later events of an id that was already there: readers drop them.';

CREATE TABLE undecodable (
    topic VARCHAR, "partition" INTEGER, "offset" BIGINT, log_time TIMESTAMP, kind VARCHAR, error VARCHAR,
    ce_type VARCHAR, campaign VARCHAR, value_bytes BIGINT, value_digest VARCHAR
);
COMMENT ON TABLE undecodable IS 'Records that are no events, by reference.';

CREATE TABLE crossings (
    topic VARCHAR, "partition" INTEGER, "offset" BIGINT, id VARCHAR, type VARCHAR, campaign VARCHAR, time TIMESTAMP,
    place VARCHAR, path VARCHAR, kind VARCHAR, n BIGINT, lowest VARCHAR, highest VARCHAR, sample VARCHAR[],
    permitted BOOLEAN, note VARCHAR
);
COMMENT ON TABLE crossings IS 'Every key, header and body field of every record on boundary.* topics, duplicates and undecodable ones too.';

CREATE TABLE rollout_evidence (
    event VARCHAR, campaign VARCHAR, rollout VARCHAR, evidence VARCHAR, status VARCHAR, detail VARCHAR,
    receipts BIGINT, files BIGINT, inputs_intact BOOLEAN
);
COMMENT ON TABLE rollout_evidence IS 'What the artefact store gave when a rollout was materialised: one row per RolloutCompleted.';
COMMENT ON COLUMN rollout_evidence.status IS 'read, or unread; then detail says why and what follows is NULL';
COMMENT ON COLUMN rollout_evidence.files IS 'files of the final workspace';

CREATE TABLE receipts (
    event VARCHAR, campaign VARCHAR, rollout VARCHAR, "index" BIGINT, engine VARCHAR, language VARCHAR,
    code_digest VARCHAR, code_bytes BIGINT, code_follows BOOLEAN, exit_code BIGINT, "end" VARCHAR,
    stdout_bytes BIGINT, stderr_bytes BIGINT, workspace_before VARCHAR, workspace_after VARCHAR, changed_files BIGINT
);
COMMENT ON TABLE receipts IS 'One row per tool call of a rollout whose evidence was read; texts stay in the artefact.';
COMMENT ON COLUMN receipts.event IS 'the RolloutCompleted event';
COMMENT ON COLUMN receipts.code_follows IS 'whether code_digest is the SHA-256 of the code beside it';
