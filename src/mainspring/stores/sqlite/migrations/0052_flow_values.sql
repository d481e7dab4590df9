-- compatible_from: 0007
-- What steps have left for expressions of later turns of their flows. It is there until the flow has ended.

CREATE TABLE flow_value (
    flow_id INTEGER NOT NULL,
    step INTEGER NOT NULL,
    item INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (flow_id, step, item)
) STRICT, WITHOUT ROWID;
