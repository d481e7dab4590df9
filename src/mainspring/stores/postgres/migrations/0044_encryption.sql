-- compatible_from: 0007
-- The keys that contents are encrypted with. The keys themselves are never here.

CREATE TABLE encryption_key (
    id text NOT NULL,
    -- Tells the right key from another one of the same id.
    key_check bytea NOT NULL,
    since timestamptz NOT NULL,
    CONSTRAINT encryption_key_pkey PRIMARY KEY (id)
);
