-- compatible_from: 0007
-- Steps of flows that wait for an event. An event finds them by topic and key, and they find events that came before.

CREATE TABLE wait (
    flow_id INTEGER NOT NULL,
    step INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    topic TEXT NOT NULL,
    -- Empty: the event has none.
    key TEXT NOT NULL,
    PRIMARY KEY (flow_id, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX wait_topic ON wait (tenant, topic, key);

CREATE INDEX event_key ON event (tenant, topic, coalesce(key, ''), received_at);
