-- Index: topology_pkey. Epoch 1, whole or not at all; whoever comes second leaves it as it is.
INSERT INTO topology (epoch, slot, region)
SELECT 1, u.slot, u.region FROM unnest($1::INT8[], $2::TEXT[]) AS u (slot, region)
 WHERE NOT EXISTS (SELECT 1 FROM topology)
    ON CONFLICT (epoch, slot) DO NOTHING;
