-- Index: videos_pkey. Rows come back only for videos whose state somebody set.
SELECT video_id, state FROM videos WHERE video_id = ANY ($1::TEXT[]);
