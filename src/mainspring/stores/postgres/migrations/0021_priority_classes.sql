-- compatible_from: 0007
-- Names for priorities: their values are copied into definitions, so nothing refers to a row.

CREATE TABLE priority_class (
    name text NOT NULL,
    tier smallint NOT NULL,
    preempts boolean NOT NULL,
    preemptible boolean NOT NULL,
    CONSTRAINT priority_class_tier CHECK (tier IN (0, 1, 2)),
    CONSTRAINT priority_class_pkey PRIMARY KEY (name)
);
