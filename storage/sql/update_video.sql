-- Index: videos_pkey.
UPDATE videos SET state = $2::INT2, generation = generation + 1, updated_at = now() WHERE video_id = $1::TEXT AND state <> $2::INT2;
