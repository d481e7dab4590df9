-- Several scheduler nodes divide the shards.

-- Why a node owns no shards; null where nothing speaks against it.
ALTER TABLE node ADD COLUMN refusal text;

-- One row: what nodes must have in common.
CREATE TABLE cluster (
    id smallint PRIMARY KEY CONSTRAINT cluster_is_one CHECK (id = 1),
    tzdata text
);
INSERT INTO cluster (id) VALUES (1);
