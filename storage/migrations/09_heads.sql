-- One head per slot.
INSERT INTO slots (slot) SELECT g FROM generate_series(0, 255) AS t (g) ON CONFLICT (slot) DO NOTHING;
