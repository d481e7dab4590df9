-- compatible_from: 0007
-- Steps of flows that wait for an event. An event finds them by topic and key, and they find events that came before.

CREATE TABLE wait (
    flow_id bigint NOT NULL,
    step smallint NOT NULL,
    tenant text NOT NULL,
    topic text NOT NULL,
    -- Empty: the event has none.
    key text NOT NULL,
    CONSTRAINT wait_pkey PRIMARY KEY (flow_id, step)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX wait_topic ON wait (tenant, topic, key);

CREATE INDEX event_key ON event (tenant, topic, coalesce(key, ''), received_at);
