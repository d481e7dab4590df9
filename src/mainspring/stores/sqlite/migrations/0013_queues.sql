-- compatible_from: 0007
-- What operators set for queues, and what servers tell each other about whom they have given slots to.

ALTER TABLE queue ADD COLUMN ordering TEXT NOT NULL DEFAULT 'fair' CHECK (ordering IN ('fair', 'round_robin', 'fifo'));
ALTER TABLE queue ADD COLUMN aging_ms INTEGER NOT NULL DEFAULT 300000;
ALTER TABLE queue ADD COLUMN aging_share REAL NOT NULL DEFAULT 0.1;

-- The default queue's row says nothing that does not hold without it.
DELETE FROM queue WHERE name = 'default' AND is_paused = 0;

ALTER TABLE node ADD COLUMN served BLOB;
