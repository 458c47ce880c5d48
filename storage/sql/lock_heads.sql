-- Index: slots_pkey. The first statement of every write transaction, alone: a statement that both waits for a lock and reads rows would see them as they were before the wait.
SELECT slot, next_offset FROM slots WHERE slot = ANY ($1::INT8[]) ORDER BY slot FOR UPDATE;
