-- Every transition, gap-free and in commit order per slot. (slot, log_offset) is the event's id.
CREATE TABLE IF NOT EXISTS changes (
    slot         INT8             NOT NULL,
    log_offset   INT8             NOT NULL,
    video_id     TEXT COLLATE "C" NOT NULL,
    user_id      TEXT COLLATE "C" NOT NULL,
    previous     INT2             NOT NULL,
    next         INT2             NOT NULL,
    version      INT8             NOT NULL,
    counter_slot INT8             NOT NULL,
    attempt_id   UUID             NOT NULL,
    changed_at   TIMESTAMPTZ      NOT NULL,
    CONSTRAINT changes_pkey PRIMARY KEY (slot, log_offset),
    CONSTRAINT changes_slot_check CHECK (slot BETWEEN 0 AND 255),
    CONSTRAINT changes_transition_check CHECK (previous IN (0, 1, 2) AND next IN (0, 1, 2) AND previous <> next)
);
