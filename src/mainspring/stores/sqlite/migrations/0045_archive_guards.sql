-- compatible_from: 0007
-- What is in the store and not in the archive stays, whichever server would remove it.

-- Who writes into an archive says so there, by this; and where it writes, so that a server without that setting keeps
-- what is not written.
ALTER TABLE cluster ADD COLUMN installation TEXT;
ALTER TABLE cluster ADD COLUMN archive_url TEXT;
UPDATE cluster SET installation = lower(hex(randomblob(16)));

-- Rows of a part's range that the archive had before, in other files.
ALTER TABLE archive_part ADD COLUMN known_rows INTEGER NOT NULL DEFAULT 0;
ALTER TABLE archive_part ADD COLUMN known_ids TEXT NOT NULL DEFAULT '0';

-- What ends in a day that is in the archive, because the clock was set back, is in no file of it: the day gets files
-- once more, for what they do not have yet.
CREATE TRIGGER run_reopens_archive_day AFTER INSERT ON run_history
WHEN EXISTS (SELECT 1 FROM archive_part WHERE day = new.finished_at / 86400000000 AND state <> 'DROPPED')
BEGIN
    UPDATE archive_part SET state = 'DROPPED' WHERE day = new.finished_at / 86400000000 AND state = 'VERIFIED';
    DELETE FROM archive_part WHERE day = new.finished_at / 86400000000 AND state = 'WRITTEN';
END;

CREATE TRIGGER attempt_reopens_archive_day AFTER INSERT ON attempt
WHEN EXISTS (SELECT 1 FROM archive_part WHERE day = new.finished_at / 86400000000 AND state <> 'DROPPED')
BEGIN
    UPDATE archive_part SET state = 'DROPPED' WHERE day = new.finished_at / 86400000000 AND state = 'VERIFIED';
    DELETE FROM archive_part WHERE day = new.finished_at / 86400000000 AND state = 'WRITTEN';
END;
