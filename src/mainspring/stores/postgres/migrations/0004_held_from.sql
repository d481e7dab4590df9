-- What a session holds is sought from its oldest claim with a lease on. An index keeps an entry of each run that it ever had
-- for as long as a transaction is open elsewhere, and every heartbeat walked them all.
-- compatible_from: 0002

-- No lease of an earlier claim is under way; each heartbeat raises it. A release that does not keep it leaves it as it is,
-- which is only less of a help.
ALTER TABLE session ADD COLUMN held_from bigint NOT NULL DEFAULT 0;

-- The same runs as run_held, by claim, since claims are numbered upwards. Said otherwise, so that neither index offers itself
-- for the other's statements. Older releases need run_held in its order (they sort nothing); a later one drops it.
CREATE INDEX run_claimed ON run (session_id, claim_number) WHERE claim_number IS NOT NULL;
