-- Indexes: counter_shards_pkey, videos_pkey. As read_counter_shards, for many videos in one snapshot.
SELECT now() AS as_of, q.place, coalesce(v.state, 1)::INT2, c.counter_slot, c.likes, c.dislikes, c.rev
  FROM unnest($1::TEXT[]) WITH ORDINALITY AS q (video_id, place)
  LEFT JOIN videos AS v ON v.video_id = q.video_id
  LEFT JOIN counter_shards AS c ON c.video_id = q.video_id;
