-- How often each node name has started: what orders its words in gossip.
CREATE TABLE IF NOT EXISTS nodes (
    name        TEXT        NOT NULL,
    incarnation INT8        NOT NULL,
    started_at  TIMESTAMPTZ NOT NULL,
    CONSTRAINT nodes_pkey PRIMARY KEY (name),
    CONSTRAINT nodes_incarnation_check CHECK (incarnation >= 1)
);
