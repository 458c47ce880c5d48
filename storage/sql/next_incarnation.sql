-- Index: nodes_pkey.
INSERT INTO nodes (name, incarnation, started_at) VALUES ($1::TEXT, 1, now())
    ON CONFLICT (name) DO UPDATE SET incarnation = nodes.incarnation + 1, started_at = now()
RETURNING incarnation;
