-- compatible_from: 0007
-- What operators set for tenants, and a number by which every process sees that something has changed.

CREATE TABLE revision (
    name text NOT NULL CONSTRAINT revision_pkey PRIMARY KEY,
    number bigint NOT NULL
);
INSERT INTO revision (name, number) VALUES ('policies', 0);

-- The default tenant's row says nothing that does not hold without it.
DELETE FROM tenant WHERE id = 'default' AND weight = 1;
