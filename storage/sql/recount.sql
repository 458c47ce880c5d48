-- Indexes: reactions_pkey, one range per slot; counter_shards_pkey. One statement, so one snapshot. A sum beyond 63 bits stays at the highest of them.
SELECT stored.likes, stored.dislikes, counted.likes, counted.dislikes
  FROM (SELECT least(coalesce(sum(likes), 0), 9223372036854775807)::INT8 AS likes, least(coalesce(sum(dislikes), 0), 9223372036854775807)::INT8 AS dislikes
          FROM counter_shards WHERE video_id = $1::TEXT) AS stored,
       (SELECT count(*) FILTER (WHERE r.reaction = 1) AS likes, count(*) FILTER (WHERE r.reaction = 2) AS dislikes
          FROM generate_series(0, 255) AS s (slot) INNER JOIN reactions AS r ON r.slot = s.slot AND r.video_id = $1::TEXT) AS counted;
