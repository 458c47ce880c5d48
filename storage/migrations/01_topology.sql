-- Which region serves a slot. The highest epoch is in force.
CREATE TABLE IF NOT EXISTS topology (
    epoch      INT8        NOT NULL,
    slot       INT8        NOT NULL,
    region     TEXT        NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    CONSTRAINT topology_pkey PRIMARY KEY (epoch, slot),
    CONSTRAINT topology_epoch_check CHECK (epoch >= 1),
    CONSTRAINT topology_slot_check CHECK (slot BETWEEN 0 AND 255),
    CONSTRAINT topology_region_check CHECK (region <> '')
);
