-- compatible_from: 0007
-- How many slots tenants get before all others.

ALTER TABLE tenant ADD reserved integer NOT NULL DEFAULT 0;
