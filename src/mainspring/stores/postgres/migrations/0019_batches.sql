-- compatible_from: 0007
-- How many runs of a line are given to one call, and how long the first of them waits for others.

ALTER TABLE limit_rule
    ADD batch_size integer,
    ADD batch_wait_ms bigint;
