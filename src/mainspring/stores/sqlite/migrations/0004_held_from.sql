-- What a session holds is sought from its oldest claim with a lease on, as on PostgreSQL.
-- compatible_from: 0002

-- No lease of an earlier claim is under way; each heartbeat raises it. A release that does not keep it leaves it as it is,
-- which is only less of a help.
ALTER TABLE session ADD COLUMN held_from INTEGER NOT NULL DEFAULT 0;
