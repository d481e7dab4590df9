"""Wrong calls of the Python SDK and of the HTTP API. Each with what the answer names and advises."""

from __future__ import annotations

from tests.wrong_inputs.trying import Case, Code, Request

_JOBS = "POST /api/v1/jobs"
_BULK = "POST /api/v1/runs/bulk"


def job(options: str, names: str, remedy: str, *, function: str = "def f(): ...") -> Case:
    return Case("Python", Code(f"@app.job({options})\n{function}"), names, remedy)


def code(text: str, names: str, remedy: str) -> Case:
    return Case("Python", Code(text), names, remedy)


def http(line: str, body: str, names: str, remedy: str, **headers: str) -> Case:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Case("HTTP", Request(line, body, named), names, remedy)


def target(body: str, names: str, remedy: str) -> Case:
    return http(_JOBS, f'{{"name": "r", "target": {body}}}', names, remedy)


DEFINITIONS = [
    job("cron='0 25 * * *'", "cron: hour", "between 0 and 23"),
    job("evry='10s'", "evry", "did you mean 'every'?"),
    job("every='10 parsecs'", "every", "'90s', '5m', '1h30m'"),
    job("every='10s', cron='@daily'", "every", "give one of them"),
    job("calendar_interval='1 month', day=32", "day", "1 to 31"),
    job("every='1 month', day=1", "day", "goes with calendar_interval"),
    job("retries=-1", "retries", "between 0 and 1000"),
    job("metrics='all'", "metrics", "true or false"),
    job("isolation='thread'", "isolation", "process"),
    job("every='10m', max_fires=0", "max_fires", "between 1 and 10000"),
    job("every='10m', max_runs=5", "max_runs", "did you mean 'max_fires'?"),
    job("schedule='@reboot', max_fires=5", "max_fires", "leave max_fires out"),
    job("timeout=timedelta(0)", "timeout", "between 1ms and 30d"),
    job("cron='@daily', tz='Europe/Berln'", "tz", "did you mean Europe/Berlin?"),
    job("run_at=datetime(2027, 1, 1)", "run_at", "2026-11-21T09:00:00+01:00"),
    job("run_at='in 10m'", "run_at", "submit a run with a delay"),
    job("command=['ls']", "command", "the job runs the decorated function"),
    job("unique='order'", "unique.key", "write '$.order'", function="def f(order: int): ..."),
    job("concurrency=0", "concurrency", "between 1 and 100000"),
    job("rate='10 per fortnight'", "rate", "10/s, 100/m, 5/h or 1/d"),
    job("misfire='sometimes'", "misfire", "skip, fire_latest, fire_all"),
    job("overlap='maybe'", "overlap", "allow, skip, queue_one"),
    job("labels='gpu'", "labels", "must be a list"),
    job("retry_on='Value Error!'", "retry_on", "the name of an exception"),
    job("batch={'size': 0}", "batch.size", "between 2 and 1000", function="def f(calls): ..."),
    job("name='add'", "'add'", "already taken by another function"),
    job("", "function", "return the result instead", function="def f(): yield 1"),
    job("", "function", "decorate a function", function="class F: ..."),
    code("@app.job\ndef f(): ...", "name", "write @app.job() with parentheses"),
    code("app.job()(lambda: 1)", "name", "app.job('name')"),
    code("app.workflow('add')", "name", "choose another name"),
    code("app.workflow('etl', retries=3)", "retry.max_retries", "give the steps a retry"),
    code("app.workflow('etl', timeout=60)", "timeout", "give it to the steps"),
    code("app.workflow('etl', deadline='soon')", "deadline", "'90s'"),
    code("app.workflow('etl', deadline=0.5)", "deadline", "between 1s and 366d"),
    code("app.workflow('etl').step('Load', add)", "name", "a-z 0-9 _, with a letter first"),
    code("app.workflow('etl').step('load', add, rule='any')", "rule", "one_success"),
    code("app.workflow('etl').step('load', add, rule='one_failed')", "rule", "name them in 'after'"),
    code("app.workflow('etl').step('load', add, retires=3)", "retires", "did you mean 'retry'?"),
    code("app.workflow('etl').step('load', add, at_end='yes')", "at_end", "must be true or false"),
    code("w = app.workflow('etl'); w.step('a', add, payload={'x': [w.input]})", "payload.x[0]", "one of its"),
    code("app.workflow('etl').step('load')", "target", "give one of callback_url"),
    code("app.workflow('etl').step('load', add, job='clean')", "function", "a target or a job"),
    code("app.workflow('etl').step('load', job='clean', queue='q')", "queue", "set it there"),
    code("app.workflow('etl').map('load', add, over=[1], max_parallel=0)", "map.max_parallel", "1"),
    code("app.workflow('etl').map('load', add, over=[1], tolerate=1.5)", "map.tolerate", "from 0.0 to 1.0"),
    code("app.workflow('etl').map('load', add, over=[1], tolerate=True)", "map.tolerate", "a whole number"),
    code("app.workflow('etl').map('load', add, over=range(10**5))", "map.over", "at most 10000 fit"),
]
CALLS = [
    code("add.enqueue_sync(x='one')", "x", "must be int"),
    code("add.enqueue_sync()", "payload: does not fit 'add'", "missing a required argument: 'x'"),
    code("add.enqueue_sync(1, z=3)", "payload: does not fit 'add'", "unexpected keyword argument 'z'"),
    code("take.enqueue_sync(it={'at': [1, object()]})", "payload.it.at[1]", "give text, finite numbers"),
    code("take.enqueue_sync(it=float('nan'))", "payload.it", "give text, finite numbers"),
    code("app.submit_sync('add', {'x': 1, 'y': 2})", "payloads", "for one run, [payload]"),
    code("app.submit_sync('add', 'x')", "payloads", "must be a list, one payload for each run, not text"),
    code("add.options(delay='soon')", "delay", "'90s', '5m', '1h30m'"),
    code("add.options(delay=-1)", "delay", "between 0s and 3650d"),
    code("add.options(run_at=datetime(2027, 1, 1))", "run_at", "2026-11-21T09:00:00+01:00"),
    code("add.options(delay=5, run_at=0)", "delay", "give one of them"),
    code("add.options(priority=11)", "priority", "HIGH, MEDIUM, LOW"),
    code("add.enqueue_many_sync([1])", "calls[0]", "a mapping or a list of arguments"),
    code("add.enqueue_many_sync(5)", "calls", "for one run, enqueue"),
    code("@app.job(every='1h')\ndef pay(invoice): ...", "payload", "missing a required argument: 'invoice'"),
    code("add.options(idempotency_key='').enqueue_sync(1)", "idempotency_key", "1 to 255 printable"),
    code("add.options(connection=5).enqueue_sync(1)", "connection", "psycopg 3 connection"),
    code("App(server='localhost:8620').sync.list_jobs()", "server", "http://127.0.0.1:8620"),
    code("App(tenant='a b')", "tenant", "1 to 64 of A-Z a-z 0-9"),
    code("app.testing('eagre')", "mode", "'eager' or 'held'"),
    code("app.sync.put_job({'name': 'x'})", "target", "callback_url, function, command"),
    code("current_attempt()", "current_attempt()", "call it within a job's function"),
    code(
        "@app.job()\ndef absent(): ...\nabsent.enqueue_sync()", "no job 'absent'", "mainspring up MODULE:APP"
    ),
]
REQUESTS = [
    http(_JOBS, "{name: report}", "JSON", "object keys must be strings"),
    http(_JOBS, "", "name", "every job has a name"),
    http(_JOBS, "[]", "body", "must be an object"),
    target('{"type": "container"}', "target.image", "is missing"),
    target('{"type": "container", "image": "-v"}', "target.image", "like example.com/jobs/report:2"),
    target('{"type": "container", "image": "a", "command": "ls"}', "target.command", "a list of at most 256"),
    target('{"type": "container", "image": "a", "memory": 1}', "target.memory", "between 8 and 1048576"),
    target('{"type": "container", "image": "a", "env": {"A=B": "x"}}', "target.env.A=B", "no blank, no ="),
    target('{"type": "container", "image": "a", "volumes": []}', "target.volumes", "there is no such field"),
    target('{"type": "kubernetes"}', "target.image", "is missing"),
    target('{"type": "kubernetes", "image": "a", "args": "ls"}', "target.args", "a list of at most 256"),
    target('{"type": "kubernetes", "image": "a", "namespace": "A"}', "target.namespace", "of a-z, 0-9, -"),
    target(
        '{"type": "kubernetes", "image": "a", "node_selector": {"a b": "x"}}',
        "target.node_selector.a b",
        "like disk or example.com/pool",
    ),
    target(
        '{"type": "kubernetes", "image": "ab", "node_selector": {"gpu": true}}',
        "target.node_selector.gpu",
        "text of at most 63",
    ),
    target(
        '{"type": "kubernetes", "image": "a", "tolerations": {"key": "pool"}}',
        "target.tolerations",
        "a list of at most 32 objects",
    ),
    target(
        '{"type": "kubernetes", "image": "a", "tolerations": [{"effect": "NoSchedule"}]}',
        "target.tolerations[0].key",
        '"operator" must be "Exists"',
    ),
    target(
        '{"type": "kubernetes", "image": "abcd", "tolerations": [{"key": "a", "effect": "Never"}]}',
        "target.tolerations[0].effect",
        "NoExecute",
    ),
    target(
        '{"type": "kubernetes", "image": "ab", "tolerations": [{"key": "a", "seconds": 5}]}',
        "target.tolerations[0].seconds",
        "goes with the effect NoExecute",
    ),
    target(
        '{"type": "kubernetes", "image": "abc", "tolerations": [{"key": "a", "until": 5}]}',
        "target.tolerations[0].until",
        "there is no such field",
    ),
    target('{"type": "grpc", "url": "dns:///a", "method": "a.B/C"}', "target.url", "grpcs://"),
    target('{"type": "grpc", "url": "unix:/a", "method": "a.B/C"}', "target.url", "grpcs://"),
    target(
        '{"type": "grpc", "url": "grpcs://a/b", "method": "a.B/C"}', "target.url", "a host and perhaps a port"
    ),
    target(
        '{"type": "grpc", "url": "grpcs://a", "method": "C"}', "target.method", "like shop.v1.Orders/Settle"
    ),
    target(
        '{"type": "grpc", "url": "grpcs://a", "method": "a.B/C", "headers": {"grpc-timeout": "1S"}}',
        "target.headers.grpc-timeout",
        "set by gRPC or by the scheduler",
    ),
    target(
        '{"type": "grpc", "url": "grpcs://a", "method": "a.B/C", "headers": {"X-Bin": "1"}}',
        "target.headers.X-Bin",
        "lower case letters",
    ),
    http(_JOBS, '{"name": "r", "crn": "@daily"}', "crn", "did you mean 'cron'?"),
    http(_JOBS, '{"name": "r", "function": "add", "cron": "0 25 * * *"}', "cron", "between 0 and 23"),
    http(_JOBS, '{"name": "r", "function": "add", "tz": "CEST"}', "tz", "cron"),
    http(_JOBS, '{"name": "r", "function": "add", "retry": {"max_retrys": 1}}', "retry", "max_retries"),
    http(_JOBS, '{"name": 5, "function": "add"}', "name", "must be"),
    http(_JOBS, '{"name": "r", "function": "absent"}', "function", "known are add, take"),
    http(_JOBS, "name=r", "content type", "must be application/json", content_type="text/plain"),
    http("POST /api/v1/jobs/nope/run", "{}", "no job 'nope'", "GET /api/v1/jobs?name=nope"),
    http("GET /api/v1/runs/17", "", "no run '17'", "GET /api/v1/runs lists"),
    http("GET /api/v1/runs/run_00000000zzz00/logs?follow=maybe", "", "follow", "true, false"),
    http("GET /api/v1/runs/run_00000000zzz00/logs?offset=-1", "", "offset", "from 0 to"),
    http("GET /api/v1/runs?limit=0", "", "limit", "from 1 to 1000"),
    http("GET /api/v1/runs?state=DONE", "", "state", "SUCCEEDED, FAILED"),
    http("GET /api/v1/runs?stat=FAILED", "", "stat", "did you mean 'state'?"),
    http("GET /api/v1/dead-runs?settled=maybe", "", "settled", "one of true, false"),
    http("GET /api/v1/audit?subject=mail", "", "kind", "say what 'mail' is"),
    http("GET /api/v1/archive/days?before=tomorrow", "", "before", "is no day like 2026-01-31"),
    http(
        "GET /api/v1/artifacts/art_1", "", "no artifact 'art_1'", "GET /api/v1/runs/{id}/artifacts lists them"
    ),
    http("POST /api/v1/events", '{"data": 1}', "topic", "is missing"),
    http("POST /api/v1/events", '{"topic": ""}', "topic", "1 to 255 characters"),
    http("POST /api/v1/events", '{"topic": "a", "key": 7}', "key", "must be text"),
    http("POST /api/v1/events", '{"topic": "a", "kee": "7"}', "kee", "did you mean 'key'?"),
    http(
        "POST /api/v1/events/bulk",
        '[{"topic": "a"}, {"topic": " b"}]',
        "[1].topic",
        "begin or end with a space",
    ),
    http("GET /api/v1/events?before=new", "", "before", "is not what `next` of a page has"),
    http(_JOBS, '{"name": "r", "function": "add", "on_event": 7}', "on_event", "must be text"),
    http(
        _JOBS,
        '{"name": "r", "function": "add", "trigger": {"type": "event", "topic": "a", "pattern": {"data": {"n": 5}}}}',
        "trigger.pattern.data.n",
        "write it in brackets",
    ),
    http(
        "POST /api/v1/worker/artifacts",
        '{"session_id": "ses_1", "run_id": "run_00000000001yf", "token": 1, "name": "a", "content_type": "csv",'
        ' "size": 1, "sha256": "abc"}',
        "sha256",
        "must be 64 hexadecimal digits in lower case",
    ),
    http(
        "POST /api/v1/worker/checkpoints",
        '{"session_id": "ses_1", "steps": [{"run_id": "run_00000000001yf", "token": 1, "name": ""}]}',
        "steps[0].name",
        "must be 1 to 200 printable characters",
    ),
    http("GET /api/v1/runs/run_00000000001yf/checkpoints?after=charge", "", "after", "like '0:charge'"),
    http("GET /api/v1/audit/verify?expect=1204", "", "expect", "is not SEAL=DIGEST, like 1204=5f0c…"),
    http("GET /api/v1/audit?action=edit", "", "action", "/openapi.json has them, like edit_job"),
    http("PUT /api/v1/logging", '{"level": "trace"}', "level", "must be one of debug, info"),
    http("PUT /api/v1/logging", '{"level": "debug", "duration": "2d"}', "duration", "between 1s and 1d"),
    http(
        "PUT /api/v1/accounts/ann",
        '{"grants": {"*": "admin"}}',
        "no accounts yet",
        "token create --role admin",
    ),
    http("POST /api/v1/tokens", '{"name": "t", "role": "admin", "rate": 0}', "rate", "between 1 and"),
    http("PUT /api/v1/channels/ops", '{"kind": "fax", "config": {}}', "kind", "webhook, slack"),
    http("PUT /api/v1/alert-rules/many", '{"kind": "odd"}', "kind", "must be one of dead_letters"),
    http("PUT /api/v1/monitors/dump", '{"evry": "1h"}', "evry", "did you mean 'every'?"),
    http("PUT /api/v1/monitors/dump", '{"every": "1h", "tolerance": 0}', "tolerance", "between 1 and 100"),
    http(
        "PUT /api/v1/slos/quick",
        '{"kind": "start", "objective": 0.9, "bound": "7s"}',
        "bound",
        "5ms, 10ms, 25ms",
    ),
    http("PUT /api/v1/slos/quick", '{"kind": "success", "objective": 99.9}', "objective", "0.5 and 0.99999"),
    http("PUT /api/v1/alert-rules/late", '{"kind": "start_lag", "period": "2d"}', "period", "from 1m to 1d"),
    http("POST /ping/nothing", "", "no monitor with the key", "noth"),
    http("POST /api/v1/silences", '{"reason": "x"}', "period", "is missing"),
    http("POST /api/v1/redrives", '{"filter": {}}', "filter", '{"until": "0s"} means all of now'),
    http("POST /api/v1/redrives", '{"filter": {"error": "x"}, "rate": 0}', "rate", "1 to 1,000"),
    http(
        "POST /api/v1/dead-runs/discard",
        '{"filter": {}, "reason": "x"}',
        "filter",
        '{"until": "0s"} means all of now',
    ),
    http("PUT /api/v1/runs", "", "PUT", "see /openapi.json"),
    http("GET /api/v1/job", "", "/api/v1/job", "see /openapi.json"),
    http(_BULK, '{"job": "add"}', "body", "must be a list"),
    http(_BULK, '[{"job": "add"}, {}]', "[1].job_id", "job_id or job"),
    http(_BULK, f'[{{"job": "add", "payload": "{"x" * 70_000}"}}]', "[0].payload", "at most 65536"),
    http(_BULK, " " * 1_100_000, "body", "the limit is 1048576"),
    http("GET /api/v1/jobs", "", "evil.example", "--allow-host", host="evil.example"),
]
