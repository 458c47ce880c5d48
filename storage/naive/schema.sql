CREATE TABLE IF NOT EXISTS naive_blind (
    video_id TEXT PRIMARY KEY,
    likes INT8 NOT NULL,
    dislikes INT8 NOT NULL
);
CREATE TABLE IF NOT EXISTS naive_read_then_write (
    video_id TEXT PRIMARY KEY,
    likes INT8 NOT NULL,
    dislikes INT8 NOT NULL
);
TRUNCATE naive_blind, naive_read_then_write;
