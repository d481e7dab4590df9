-- compatible_from: 0007
-- Files that runs leave behind. Their bytes lie in a folder or a bucket.

CREATE TABLE artifact (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    run_id bigint NOT NULL,
    -- Only those of the run's last token are shown.
    token integer NOT NULL,
    name text NOT NULL,
    location text NOT NULL,
    content_type text NOT NULL,
    size bigint NOT NULL,
    sha256 bytea NOT NULL,
    -- Whether the bytes are there.
    is_ready boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT artifact_pkey PRIMARY KEY (id),
    CONSTRAINT artifact_name UNIQUE (run_id, token, name)
);

CREATE INDEX artifact_expiring ON artifact (expires_at);
