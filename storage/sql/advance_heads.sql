-- Index: slots_pkey. A head that moved since it was locked becomes NULL: an error (23502), and nothing commits.
UPDATE slots AS s
   SET next_offset = CASE WHEN s.next_offset = u.offset_read THEN u.next_offset END
  FROM unnest($1::INT8[], $2::INT8[], $3::INT8[]) AS u (slot, offset_read, next_offset)
 WHERE s.slot = u.slot;
