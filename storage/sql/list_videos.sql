-- Reads all reactions: for checks, not for the request path.
SELECT video_id FROM (SELECT video_id FROM reactions UNION SELECT video_id FROM counter_shards) AS v WHERE video_id > $1::TEXT ORDER BY video_id LIMIT $2::INT8;
