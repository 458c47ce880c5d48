-- Index: topology_pkey.
SELECT epoch, slot, region FROM topology WHERE epoch = (SELECT max(epoch) FROM topology) ORDER BY slot;
