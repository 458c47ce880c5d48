-- Index: idempotency_pkey. Sent only for batches with keys.
SELECT i.slot, i.user_id, i.video_id, i.key, i.request_hash, i.previous, i.reaction, i.version, i.changed
  FROM unnest($1::INT8[], $2::TEXT[], $3::TEXT[], $4::TEXT[]) AS q (slot, user_id, video_id, key)
 INNER JOIN idempotency AS i ON i.slot = q.slot AND i.user_id = q.user_id AND i.video_id = q.video_id AND i.key = q.key
 WHERE i.expires_at > now();
