-- Index: slots_pkey. A look-up writes the heads that it locked, so that it cannot commit beside the attempt it asks about.
UPDATE slots SET next_offset = next_offset WHERE slot = ANY ($1::INT8[]);
