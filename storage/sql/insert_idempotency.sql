-- Index: idempotency_pkey. A key that has expired is used again; one that lives becomes NULL: an error (23502), and nothing commits. $10 is how long a key lives, in seconds.
INSERT INTO idempotency (slot, user_id, video_id, key, request_hash, previous, reaction, version, changed, expires_at)
SELECT u.slot, u.user_id, u.video_id, u.key, u.request_hash, u.previous, u.reaction, u.version, u.changed, now() + $10::FLOAT8 * INTERVAL '1 second'
  FROM unnest($1::INT8[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::BYTEA[], $6::INT2[], $7::INT2[], $8::INT8[], $9::BOOL[]) AS u (slot, user_id, video_id, key, request_hash, previous, reaction, version, changed)
    ON CONFLICT (slot, user_id, video_id, key) DO UPDATE
   SET request_hash = CASE WHEN idempotency.expires_at <= now() THEN excluded.request_hash END,
       previous = excluded.previous, reaction = excluded.reaction, version = excluded.version, changed = excluded.changed, expires_at = excluded.expires_at;
