-- A claim gives each index of a run that it cannot leave alone an entry more.
-- compatible_from: 0004

-- Releases from 0004 on seek what a session holds in run_claimed.
DROP INDEX run_held;

-- Each run gets a second entry here, beside its first, when it is claimed: without room for it the page is cleared of dead
-- entries time and again, then split.
ALTER INDEX run_pkey SET (fillfactor = 45);
ALTER INDEX run_job SET (fillfactor = 45);
