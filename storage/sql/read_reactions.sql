-- Index: reactions_pkey. No lock: whoever writes these rows holds their slot's head.
SELECT r.slot, r.video_id, r.user_id, r.reaction, r.version, r.counter_slot
  FROM unnest($1::INT8[], $2::TEXT[], $3::TEXT[]) AS q (slot, video_id, user_id)
 INNER JOIN reactions AS r ON r.slot = q.slot AND r.video_id = q.video_id AND r.user_id = q.user_id;
