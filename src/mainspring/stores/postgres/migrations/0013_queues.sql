-- compatible_from: 0007
-- What operators set for queues, and what servers tell each other about whom they have given slots to.

ALTER TABLE queue
    ADD ordering text NOT NULL DEFAULT 'fair',
    ADD aging_ms bigint NOT NULL DEFAULT 300000,
    ADD aging_share double precision NOT NULL DEFAULT 0.1,
    ADD CONSTRAINT queue_ordering CHECK (ordering IN ('fair', 'round_robin', 'fifo'));

-- The default queue's row says nothing that does not hold without it.
DELETE FROM queue WHERE name = 'default' AND NOT is_paused;

ALTER TABLE node ADD served bytea;
