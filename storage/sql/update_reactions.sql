-- Index: reactions_pkey. Keys with a row. A version other than the one read ($7) leaves fewer rows than asked for ($8): an error (22P02), and nothing commits.
WITH updated AS (
  UPDATE reactions AS r
     SET reaction = u.reaction, version = u.version, counter_slot = u.counter_slot, updated_at = now()
    FROM unnest($1::INT8[], $2::TEXT[], $3::TEXT[], $4::INT2[], $5::INT8[], $6::INT8[], $7::INT8[]) AS u (slot, video_id, user_id, reaction, version, counter_slot, version_read)
   WHERE r.slot = u.slot AND r.video_id = u.video_id AND r.user_id = u.user_id AND r.version = u.version_read
  RETURNING 1)
SELECT (CASE WHEN count(*) = $8::INT8 THEN '1' ELSE 'reaction changed since it was read' END)::INT8 FROM updated;
