-- Index: counter_shards_pkey. Deltas without a negative part, after all others, in the order given: that of the bytes, as in lock_counter_shards.
INSERT INTO counter_shards (video_id, counter_slot, likes, dislikes, rev, updated_at)
SELECT u.video_id, u.counter_slot, u.likes, u.dislikes, (extract(epoch FROM clock_timestamp()) * 1000000)::INT8, now()
  FROM unnest($1::TEXT[], $2::INT8[], $3::INT8[], $4::INT8[]) WITH ORDINALITY AS u (video_id, counter_slot, likes, dislikes, place)
 ORDER BY u.place
    ON CONFLICT (video_id, counter_slot) DO UPDATE
   SET likes = counter_shards.likes + excluded.likes, dislikes = counter_shards.dislikes + excluded.dislikes, rev = counter_shards.rev + 1, updated_at = excluded.updated_at
RETURNING video_id, counter_slot, likes, dislikes, rev;
