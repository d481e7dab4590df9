-- compatible_from: 0007
-- With what the flow of a run begins that repeats another one: the state of which the steps were taken over.

ALTER TABLE run ADD COLUMN flow_seed bytea;
