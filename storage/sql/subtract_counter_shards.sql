-- Index: counter_shards_pkey. Deltas with a negative part. The shard exists, or something is broken: fewer rows than $5 is an error (22P02), and nothing commits.
WITH updated AS (
  UPDATE counter_shards AS c
     SET likes = c.likes + u.likes, dislikes = c.dislikes + u.dislikes, rev = c.rev + 1, updated_at = now()
    FROM unnest($1::TEXT[], $2::INT8[], $3::INT8[], $4::INT8[]) AS u (video_id, counter_slot, likes, dislikes)
   WHERE c.video_id = u.video_id AND c.counter_slot = u.counter_slot
  RETURNING c.video_id, c.counter_slot, c.likes, c.dislikes, c.rev)
SELECT updated.video_id, updated.counter_slot, updated.likes, updated.dislikes, updated.rev, complete.ok
  FROM (SELECT (CASE WHEN count(*) = $5::INT8 THEN '1' ELSE 'counter shard missing' END)::INT8 AS ok FROM updated) AS complete
  LEFT JOIN updated ON true;
