-- compatible_from: 0007
-- Mail that answers a step which waits has words: who answers, why, and what the steps that follow get.

ALTER TABLE mail ADD COLUMN value BLOB;
