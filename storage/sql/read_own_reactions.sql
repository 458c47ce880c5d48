-- Indexes: reactions_pkey, videos_pkey. One's own reactions to many videos, in the order asked for, on the writer's database.
SELECT coalesce(r.reaction, 0)::INT2, coalesce(r.version, 0)::INT8, coalesce(v.state, 1)::INT2
  FROM unnest($1::INT8[], $2::TEXT[]) WITH ORDINALITY AS q (slot, video_id, place)
  LEFT JOIN reactions AS r ON r.slot = q.slot AND r.video_id = q.video_id AND r.user_id = $3::TEXT
  LEFT JOIN videos AS v ON v.video_id = q.video_id
 ORDER BY q.place;
