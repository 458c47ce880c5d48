-- Index: reactions_pkey. Keys without a row. A row that appeared since the read is an error (23505), and nothing commits.
INSERT INTO reactions (slot, video_id, user_id, reaction, version, counter_slot, updated_at)
SELECT u.slot, u.video_id, u.user_id, u.reaction, u.version, u.counter_slot, now()
  FROM unnest($1::INT8[], $2::TEXT[], $3::TEXT[], $4::INT2[], $5::INT8[], $6::INT8[]) AS u (slot, video_id, user_id, reaction, version, counter_slot);
