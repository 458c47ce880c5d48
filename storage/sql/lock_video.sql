-- Index: videos_pkey. A statement of its own, so that it sees the row as it is after the wait.
SELECT state, generation FROM videos WHERE video_id = $1::TEXT FOR UPDATE;
