-- Indexes: reactions_pkey, one range per slot; counter_shards_pkey. One statement, so one snapshot.
SELECT stored.likes, stored.dislikes, counted.likes, counted.dislikes
  FROM (SELECT coalesce(sum(likes), 0)::INT8 AS likes, coalesce(sum(dislikes), 0)::INT8 AS dislikes FROM counter_shards WHERE video_id = $1::TEXT) AS stored,
       (SELECT count(*) FILTER (WHERE r.reaction = 1) AS likes, count(*) FILTER (WHERE r.reaction = 2) AS dislikes
          FROM generate_series(0, 255) AS s (slot) INNER JOIN reactions AS r ON r.slot = s.slot AND r.video_id = $1::TEXT) AS counted;
