-- Index: changes_pkey. Who wrote the change at each of these offsets.
SELECT c.slot, c.attempt_id
  FROM unnest($1::INT8[], $2::INT8[]) AS q (slot, log_offset)
 INNER JOIN changes AS c ON c.slot = q.slot AND c.log_offset = q.log_offset;
