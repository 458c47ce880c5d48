-- Only videos whose state an administrator set. No row: active.
CREATE TABLE IF NOT EXISTS videos (
    video_id   TEXT COLLATE "C" NOT NULL,
    state      INT2             NOT NULL,
    generation INT8             NOT NULL DEFAULT 1,
    updated_at TIMESTAMPTZ      NOT NULL,
    CONSTRAINT videos_pkey PRIMARY KEY (video_id),
    CONSTRAINT videos_state_check CHECK (state IN (1, 2, 3))
);
