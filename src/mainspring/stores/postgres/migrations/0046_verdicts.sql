-- compatible_from: 0007
-- A verdict about alerts is saved if none was saved since it was decided. Failovers are noted by each process that
-- notices one.

INSERT INTO revision (name, number) VALUES ('alerts', 0);

CREATE TABLE failover (
    noticed_at timestamptz NOT NULL,
    -- Tells apart who noticed it: each process knows only which runs it had acknowledged itself.
    process text NOT NULL,
    from_timeline integer NOT NULL,
    to_timeline integer NOT NULL,
    -- How many bytes of WAL, at least, the old server had and the new one lacks.
    missing_wal bigint NOT NULL,
    runs_lost integer NOT NULL,
    CONSTRAINT failover_pkey PRIMARY KEY (noticed_at, process)
);
