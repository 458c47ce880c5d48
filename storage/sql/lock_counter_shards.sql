-- Index: counter_shards_pkey. Before any of them is written: whoever shares shards takes them in one order.
SELECT c.counter_slot
  FROM unnest($1::TEXT[], $2::INT8[]) AS u (video_id, counter_slot)
 INNER JOIN counter_shards AS c ON c.video_id = u.video_id AND c.counter_slot = u.counter_slot
 ORDER BY c.video_id, c.counter_slot
   FOR UPDATE OF c;
