-- Index: topology_pkey. When the first row of all was written tells this database from others.
SELECT epoch, slot, region, (SELECT created_at FROM topology ORDER BY epoch, slot LIMIT 1)
  FROM topology WHERE epoch = (SELECT max(epoch) FROM topology) ORDER BY slot;
