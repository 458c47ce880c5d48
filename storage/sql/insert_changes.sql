-- Index: changes_pkey. An offset that is taken is an error (23505), and nothing commits.
INSERT INTO changes (slot, log_offset, video_id, user_id, previous, next, version, counter_slot, attempt_id, changed_at)
SELECT u.slot, u.log_offset, u.video_id, u.user_id, u.previous, u.next, u.version, u.counter_slot, $9::UUID, now()
  FROM unnest($1::INT8[], $2::INT8[], $3::TEXT[], $4::TEXT[], $5::INT2[], $6::INT2[], $7::INT8[], $8::INT8[]) AS u (slot, log_offset, video_id, user_id, previous, next, version, counter_slot);
