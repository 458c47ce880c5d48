-- Index: reactions_pkey. One's own reaction, on the writer's database.
SELECT reaction, version FROM reactions WHERE slot = $1::INT8 AND video_id = $2::TEXT AND user_id = $3::TEXT;
