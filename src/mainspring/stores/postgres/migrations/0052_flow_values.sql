-- compatible_from: 0007
-- What steps have left for expressions of later turns of their flows. It is there until the flow has ended.

CREATE TABLE flow_value (
    flow_id bigint NOT NULL,
    step smallint NOT NULL,
    item integer NOT NULL,                   -- -1 where a step runs once
    value bytea NOT NULL,                    -- a result as JSON, or an error as text
    CONSTRAINT flow_value_pkey PRIMARY KEY (flow_id, step, item)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
