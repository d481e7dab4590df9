-- compatible_from: 0007
-- Which app's code defines a job, and on which host an attempt ran.

-- The app; NULL: a user made the job.
ALTER TABLE job ADD owner text;
-- Since when its code does not define the job any more; NULL: it does.
ALTER TABLE job ADD undefined_since timestamptz;
CREATE INDEX job_owner ON job (tenant, owner) WHERE owner IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX job_undefined ON job (tenant, id) WHERE undefined_since IS NOT NULL AND deleted_at IS NULL;

-- NULL for attempts of earlier releases.
ALTER TABLE attempt ADD host text;
-- Who the sessions were that the history names, when their own rows are gone.
CREATE TABLE past_session (
    id bigint PRIMARY KEY,
    worker text NOT NULL,
    host text NOT NULL,
    ended_at timestamptz NOT NULL
);
CREATE INDEX past_session_ended ON past_session (ended_at);
