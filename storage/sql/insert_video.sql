-- Index: videos_pkey. A row to lock, where a video leaves the state that all begin with.
INSERT INTO videos (video_id, state, generation, updated_at)
SELECT $1::TEXT, 1, 0, now() WHERE $2::INT2 <> 1
    ON CONFLICT (video_id) DO NOTHING;
