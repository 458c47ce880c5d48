-- The truth: one row per (video, user). reaction 0 is a tombstone. The key begins with the slot, so that a hot video is no hot range.
CREATE TABLE IF NOT EXISTS reactions (
    slot         INT8             NOT NULL,
    video_id     TEXT COLLATE "C" NOT NULL,
    user_id      TEXT COLLATE "C" NOT NULL,
    reaction     INT2             NOT NULL,
    version      INT8             NOT NULL,
    counter_slot INT8             NOT NULL,
    updated_at   TIMESTAMPTZ      NOT NULL,
    CONSTRAINT reactions_pkey PRIMARY KEY (slot, video_id, user_id),
    CONSTRAINT reactions_slot_check CHECK (slot BETWEEN 0 AND 255),
    CONSTRAINT reactions_reaction_check CHECK (reaction IN (0, 1, 2)),
    CONSTRAINT reactions_version_check CHECK (version >= 1),
    CONSTRAINT reactions_counter_slot_check CHECK (counter_slot BETWEEN 0 AND 255)
);
