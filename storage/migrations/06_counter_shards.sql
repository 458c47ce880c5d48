-- The addends of each video's counts. rev goes up by one per update, and starts at the clock's microseconds.
CREATE TABLE IF NOT EXISTS counter_shards (
    video_id     TEXT COLLATE "C" NOT NULL,
    counter_slot INT8             NOT NULL,
    likes        INT8             NOT NULL,
    dislikes     INT8             NOT NULL,
    rev          INT8             NOT NULL,
    updated_at   TIMESTAMPTZ      NOT NULL,
    CONSTRAINT counter_shards_pkey PRIMARY KEY (video_id, counter_slot),
    CONSTRAINT counter_shards_slot_check CHECK (counter_slot BETWEEN 0 AND 255),
    CONSTRAINT counter_shards_likes_check CHECK (likes >= 0),
    CONSTRAINT counter_shards_dislikes_check CHECK (dislikes >= 0)
);
