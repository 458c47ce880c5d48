-- The heads. Read and written by the write path only: a head is locked nearly always.
CREATE TABLE IF NOT EXISTS slots (
    slot        INT8 NOT NULL,
    next_offset INT8 NOT NULL DEFAULT 1,
    CONSTRAINT slots_pkey PRIMARY KEY (slot),
    CONSTRAINT slots_slot_check CHECK (slot BETWEEN 0 AND 255),
    CONSTRAINT slots_next_offset_check CHECK (next_offset >= 1)
);
