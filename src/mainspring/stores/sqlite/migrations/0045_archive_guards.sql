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
