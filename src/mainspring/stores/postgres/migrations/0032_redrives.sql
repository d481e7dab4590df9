-- compatible_from: 0007
-- Redrives: dead letters that are run again at a bounded rate, in the order of their ids.

CREATE TABLE redrive (
    id uuid NOT NULL,
    tenant text NOT NULL,
    state text NOT NULL,
    -- Which dead letters it runs again, as JSON.
    filter text NOT NULL,
    is_newest boolean NOT NULL,
    -- Runs a second.
    rate integer NOT NULL,
    -- The last dead letter that it has passed.
    cursor bigint NOT NULL DEFAULT 0,
    total bigint NOT NULL,
    done bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    closed_at timestamptz,
    CONSTRAINT redrive_state CHECK (state IN ('running', 'paused', 'done', 'cancelled')),
    CONSTRAINT redrive_pkey PRIMARY KEY (id)
) WITH (fillfactor = 70);
CREATE INDEX redrive_running ON redrive (id) WHERE state = 'running';
CREATE INDEX redrive_tenant ON redrive (tenant, id);
