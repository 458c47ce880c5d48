-- Indexes: counter_shards_pkey, videos_pkey. now() of an auto-commit statement is taken before its snapshot, so every write acknowledged before it is in.
SELECT now() AS as_of, coalesce(v.state, 1)::INT2, c.counter_slot, c.likes, c.dislikes, c.rev
  FROM (SELECT $1::TEXT AS video_id) AS q
  LEFT JOIN videos AS v ON v.video_id = q.video_id
  LEFT JOIN counter_shards AS c ON c.video_id = q.video_id;
