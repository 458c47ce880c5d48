-- Indexes: reactions_pkey, videos_pkey. One's own reaction, on the writer's database.
SELECT coalesce(r.reaction, 0)::INT2, coalesce(r.version, 0)::INT8, coalesce(v.state, 1)::INT2
  FROM (SELECT $1::INT8 AS slot, $2::TEXT AS video_id, $3::TEXT AS user_id) AS q
  LEFT JOIN reactions AS r ON r.slot = q.slot AND r.video_id = q.video_id AND r.user_id = q.user_id
  LEFT JOIN videos AS v ON v.video_id = q.video_id;
