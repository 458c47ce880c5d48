-- Results of requests that carried a key. Every read filters expires_at.
CREATE TABLE IF NOT EXISTS idempotency (
    slot         INT8             NOT NULL,
    user_id      TEXT COLLATE "C" NOT NULL,
    video_id     TEXT COLLATE "C" NOT NULL,
    key          TEXT COLLATE "C" NOT NULL,
    request_hash BYTEA            NOT NULL,
    previous     INT2             NOT NULL,
    reaction     INT2             NOT NULL,
    version      INT8             NOT NULL,
    changed      BOOL             NOT NULL,
    expires_at   TIMESTAMPTZ      NOT NULL,
    CONSTRAINT idempotency_pkey PRIMARY KEY (slot, user_id, video_id, key),
    CONSTRAINT idempotency_slot_check CHECK (slot BETWEEN 0 AND 255)
);
