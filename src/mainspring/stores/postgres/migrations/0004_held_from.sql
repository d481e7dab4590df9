-- What a session holds is sought from its oldest claim with a lease on. Its index keeps an entry of each run that it ever had
-- for as long as a transaction is open elsewhere, and every heartbeat walked them all.
-- compatible_from: 0002

-- No lease of an earlier claim is under way; each heartbeat raises it. A release that does not keep it leaves it as it is,
-- which is only less of a help.
ALTER TABLE session ADD COLUMN held_from bigint NOT NULL DEFAULT 0;

-- Claims are numbered upwards, so what is over lies before the bound. The name stays: older releases walk it by session.
DROP INDEX run_held;
CREATE INDEX run_held ON run (session_id, claim_number) WHERE state = 'RUNNING';

-- Only what is RUNNING is alone. Not said here, nor where it is asked, so that run_held does not offer itself.
DROP INDEX run_alone;
CREATE INDEX run_alone ON run (session_id) WHERE is_alone;
