"""Wrong command lines, among them DSNs, cron expressions and files. Each with what the answer names and advises."""

from __future__ import annotations

from tests.wrong_inputs.trying import Case, Line

_HOOK = "--callback-url https://example.com/hook"
_CHECK = "config check --store"
_NOT_WELL = (3,)
_FAILED = (1,)
_BROKEN_JOB = """from mainspring import App

app = App()


@app.job(cron="0 25 * * *")
def report() -> None: ...
"""


def cli(text: str, names: str, remedy: str, *, codes: tuple[int, ...] = (2,)) -> Case:
    return Case("CLI", Line(text, codes=codes), names, remedy)


def process(text: str, names: str, remedy: str, *, codes: tuple[int, ...] = (2,)) -> Case:
    return Case("CLI", Line(text, is_process=True, codes=codes), names, remedy)


def dsn(url: str, names: str, remedy: str) -> Case:
    return Case("DSN", Line(f"{_CHECK} '{url}'", codes=_NOT_WELL), names, remedy)


def cron(words: str, names: str, remedy: str) -> Case:
    return Case("cron", Line(f"next {words}"), names, remedy)


def file(
    text: str, name: str, content: str | bytes, names: str, remedy: str, *, codes: tuple[int, ...] = (2,)
) -> Case:
    return Case("file", Line(text, {name: content}, codes=codes), names, remedy)


def module(text: str, content: str, names: str, remedy: str) -> Case:
    return Case("file", Line(text, {"shop.py": content}, is_process=True), names, remedy)


COMMANDS = [
    cli("jbo list", "jbo", "Try: mainspring job"),
    cli(
        "backup copy --data absent",
        "there is no absent/mainspring.db",
        "name the folder that has mainspring.db",
    ),
    cli("backup copy --store memory://", "memory", "only SQLite and PostgreSQL can"),
    cli("restore absent", "absent.manifest.json", "a backup is a file and its manifest"),
    cli("top --interval 1ms", "interval", "between 500ms and 1h"),
    cli("logging loud", "loud", "'debug', 'info', 'warning', 'error'"),
    cli("logging debug --duration 2d", "duration", "between 1s and 1d"),
    cli("job lst", "lst", "Try: mainspring job list"),
    cli("job run add --dealy 5", "--dealy", "Did you mean one of: '--delay'"),
    cli("job run", "JOB", "Try 'mainspring job run --help'"),
    cli("job run nobody", "no job 'nobody'", "Try: mainspring job list"),
    cli("job run add --payload '{x: 1}'", "payload", "property name enclosed in double quotes"),
    cli("job run add --payload '[1, 2'", "payload", "Expecting ',' delimiter"),
    cli("job run add --payload NaN", "payload", "not a number that JSON can carry"),
    cli("""job run add --payload '{"x": 1, "x": 2}'""", "payload", "names 'x' twice; leave one of them out"),
    cli("job add x --command ''", "command", "is empty"),
    cli("job run add --delay soon", "delay", "'90s', '5m', '1h30m'"),
    cli("job run add --delay 5 --run-at 'in 5m'", "delay", "give one of them"),
    cli("job run add --wait -1", "wait", "0 or more seconds"),
    cli("job run add --priority URGENT", "priority", "HIGH, MEDIUM, LOW"),
    cli("job run add --run-at '2026-11-21 09:00'", "run_at", "2026-11-21T09:00:00+01:00"),
    cli("dead discard --error x", "--because", "Missing option"),
    cli("dead discard --because x", "run", "--until 0s means all of now"),
    cli("dead redrive", "run", "--until 0s means all of now"),
    cli("dead redrive --error nothing --yes", "filter", "nothing to run again"),
    cli("dead redrive --error x --rate 0", "rate", "0 is not between 1 and 1000"),
    cli("archive days", "archive_url", "is not set; give --archive-url"),
    cli("audit list --kind jobs", "kind", "must be one of job, run"),
    cli("audit export --subject mail", "kind", "say what 'mail' is"),
    cli("audit verify --expect 5f0c", "expect", "is not SEAL=DIGEST, like 1204=5f0c…"),
    cli("audit list --since soon", "since", "2h"),
    cli("account set ann --grant shop", "grant", "TENANT=ROLE, like shop=operator"),
    cli("account set ann --grant shop=viewer --no-grants", "no-grants", "--grant"),
    cli(
        "account set ann --grant shop=viewer --grant shop=editor",
        "grant",
        "'shop' two roles, viewer and editor",
    ),
    cli("account set ann --hide-payloads x --show-payloads", "show-payloads", "--hide-payloads"),
    cli("token create --role editor --queue mail", "queues", "only tokens with the role 'worker'"),
    cli("account set ann --grant shop=root", "grants.shop", "viewer, operator, editor, admin, worker"),
    cli("token create --role root", "role", "viewer, operator, editor, admin, worker"),
    cli("token create", "--role", "Missing option"),
    cli("token create --role viewer", "role", "'admin' for all tenants"),
    cli("token create --role admin --expires-in soon", "expires_in", "'90s', '5m', '1h30m'"),
    cli("token revoke ms_k3v9q2xa", "no token 'k3v9q2xa'", "Try: mainspring token list"),
    cli("alert set many", "kind", "must be one of dead_letters, no_workers"),
    cli("alert set dead_letters --channel opps", "channels[0]", "by `mainspring channel set`"),
    cli("alert set dead_letters --hold soon", "hold", "'90s', '5m', '1h30m'"),
    cli("alert acknowledge 7", "no alert '7'", "Try: mainspring alert list"),
    cli("channel set ops", "channel", "give one of --webhook, --slack, --email and --alertmanager"),
    cli("channel set ops --webhook ftp://example.com", "config.url", "https://"),
    cli("channel set ops --webhook https://example.com --header x", "header", "NAME:TEXT"),
    cli("channel show ops", "no channel 'ops'", "Try: mainspring channel list"),
    cli("silence add --for 2h", "--because", "Missing option"),
    cli("silence end 7", "no silence '7'", "Try: mainspring silence list"),
    cli("job add x --callback-url https://example.com --notify '{}'", "notify.to", "is missing"),
    cli(
        """job add x --callback-url https://x.org --notify '{"to": ["opps"]}'""",
        "notify.to[0]",
        "no channel 'opps'",
    ),
    cli("monitor set dump", "trigger", "give one of cron, every"),
    cli("monitor set dump --cron '0 25 * * *'", "cron: hour", "between 0 and 23"),
    cli("monitor set dump --every 1h --start-grace soon", "start_grace", "'90s', '5m', '1h30m'"),
    cli("monitor show dmup", "no monitor 'dmup'", "Try: mainspring monitor list"),
    cli("artifact list 7", "run", "is not an id of the form run_"),
    cli("artifact get art_1", "no artifact 'art_1'", "Try: mainspring artifact list"),
    cli("event send a --data {", "data", "JSON"),
    cli("event send ' a'", "topic", "must not begin or end with a space"),
    cli("events", "events", "Try: mainspring event list"),
    cli("artifacts", "artifacts", "Try: mainspring artifact list"),
    cli("slo add quick --kind start --objective 0.9 --bound 7s", "bound", "5s, 10s, 30s"),
    cli("slo add good --kind success --objective 99.9%", "objective", "a number from 0.5"),
    cli("slo show godo", "no slo 'godo'", "Try: mainspring slo list"),
    cli("slo delete good", "delete", "remove"),
    cli("alert set failure_rate --threshold 200", "threshold", "from 0 to 100"),
    cli("monitors", "monitors", "Try: mainspring monitor list"),
    cli(
        """channel set ops --webhook https://x.org --signing whsec_abc""",
        "config.signing",
        "'secret:ops-hook'",
    ),
    cli(
        """channel set ops --webhook https://x.org --header 'A:${env:HOME}'""",
        "config.headers.A",
        "${secret:NAME}",
    ),
    cli("redrive show redrive_1", "redrive_1", "Try: mainspring redrive list"),
    cli("dead list --job nobody", "job", "a deleted one is given by its id"),
    cli("dead groups --since soon", "since", "2h"),
    cli("dlq", "dlq", "Try: mainspring dead list"),
    cli("job add", "name", "every job has a name"),
    cli("job add report", "target", "callback_url, function, command"),
    cli("job add report --callback-url ftp://example.com", "callback_url", "https://"),
    cli("job add report --command '[\"ls\"]'", "command", "--allow-shell"),
    cli("job add report --function absent", "function", "known are add, take"),
    cli("job add report --function add --isolation thread", "isolation", "process"),
    cli(f"job add report {_HOOK} --isolation process", "isolation", "give function instead"),
    cli(f"job add report {_HOOK} --every 0s", "every", "between 1s and 3650d"),
    cli(f"job add report {_HOOK} --every '5 parsecs'", "every", "'90s', '5m', '1h30m'"),
    cli(f"job add report {_HOOK} --schedule 'every blue moon'", "schedule", "every 2 hours"),
    cli(f"job add report {_HOOK} --every 5m --cron '@daily'", "every", "give one of them"),
    cli(f"job add report {_HOOK} --retries -1", "retries", "between 0 and 1000"),
    cli(f"job add report {_HOOK} --timeout -5s", "timeout", "'90s', '5m', '1h30m'"),
    cli(f"job add report {_HOOK} --retry-on 'status 9xx'", "retry_on", "'status 5xx'"),
    cli("job add add --function add", "name", "Try: mainspring job add --update"),
    cli("run logs 17 -f", "run", "of the form run_ and 13 characters"),
    cli("run logs run_00000000zzz00 -f --json", "follow", "does not go with --json"),
    cli("run show 17", "run", "of the form run_ and 13 characters"),
    cli("run show run_00000000zzz00", "run_00000000zzz00", "Try: mainspring run list"),
    cli("run list --state DONE", "state", "SUCCEEDED, FAILED"),
    cli("run list --since yesterdayish", "since", "2h for so long ago"),
    cli("run list --limit 0", "limit", "between 1 and 1000000"),
    cli("run cancel", "RUN", "Try 'mainspring run cancel --help'"),
    cli("ledger --from 30d", "from", "within the last 7 days"),
    cli("limit set mail", "max_running", "max_running, a rate, or both"),
    cli("limit set mail --rate '10 per fortnight'", "rate", "10/s, 100/m, 5/h or 1/d"),
    cli("pause --all --until whenever", "until", "2026-11-21T09:00:00+01:00"),
    cli("status --server localhost:8620", "server", "http://127.0.0.1:8620"),
    cli("status --server http://127.0.0.1:1", "127.0.0.1:1", "Try: mainspring up", codes=_FAILED),
    cli("job show add --tenant 'a b'", "tenant", "1 to 64 of A-Z a-z 0-9"),
    cli("up --port 99999", "port", "between 0 and 65535"),
    cli("up --host 0.0.0.0", "host", "--trusted-network"),
    process("up --data /proc/nowhere", "/proc/nowhere", "give one that can be written"),
    cli("worker shop:app --store sqlite:///data", "store", "give --server"),
]
DSNS = [
    dsn("mysql://localhost/db", "store", "postgresql://"),
    dsn("sqlit:///data", "store", "sqlite:///FOLDER"),
    dsn("postgresql://user:pa@ss@host/db", "store", "@ as %40"),
    dsn("postgresql://host:99999/db", "store", "from 1 to 65535"),
    dsn("postgresql://host/db?sslmode=maybe", "sslmode", "verify-full"),
    dsn("postgresql://host/db?sslrootcert=/no/file", "sslrootcert", "No such file"),
    dsn("postgresql://host/db?pgbouncer=1", "pgbouncer", "pooler=transaction"),
    dsn("postgresql://host/db?connect_timeout=soon", "connect_timeout", "from 1 to 300"),
    dsn("postgresql://host/db?timeout", "store", "NAME=VALUE"),
    Case(
        "DSN",
        Line("server --store postgresql://127.0.0.1:1/db", is_process=True, codes=_FAILED),
        "PostgreSQL did not answer: connect",
        "is PostgreSQL running where the setting store says?",
    ),
]
CRON = [
    cron("'0 9 * *'", "schedule", "five are minute hour day-of-month month day-of-week"),
    cron("'61 * * * *'", "minute", "between 0 and 59"),
    cron("'0 25 * * *'", "hour", "between 0 and 23"),
    cron("'0 9 31 FEB *'", "day of month", "write a day that exists"),
    cron("'0 9 * * FUN'", "day of week", "a name like SUN"),
    cron("'*/0 * * * *'", "minute", "must be 1 to 60"),
    cron("'0 9 L-40 * *'", "day of month", "1 to 30 days"),
    cron("'@fortnightly'", "@fortnightly", "@daily, @hourly"),
    cron("'0 9 * * *' --tz Europe/Berln", "tz", "did you mean Europe/Berlin?"),
    cron("'0 9 * * *' --tz CEST", "tz", "an IANA name like Europe/Berlin"),
    cron("'0 9 * * *' --dst maybe", "dst", "vixie"),
    cron("'every monday at 25:00'", "schedule", "every monday at 9:30"),
    cron("'evry monday'", "schedule", "did you mean 'every monday'?"),
]
FILES = [
    file("job add --body nowhere.json", "other.json", "", "nowhere.json", "No such file"),
    file("job add --body job.json", "job.json", '{"name": "x",}', "body", "line 1 column"),
    file("job add --body job.json", "job.json", b"\xff\xfe{}", "body", "not UTF-8"),
    file(
        "apply jobs.toml",
        "jobs.toml",
        '[[jobs]]\nname = "x"\nfunction = "add"\nshell = true\n',
        "jobs.toml: job 'x' (line 1): shell",
        "remove shell, or give command instead of function",
    ),
    file(
        "apply etl.json",
        "etl.json",
        '{"jobs": [{"name": "etl", "workflow": {"steps": [{"name": "load", "function": "add"}, '
        '{"name": "page", "function": "add", "after": ["laod"]}]}}]}',
        "etl.json: job 'etl': workflow.steps[1].after[0]",
        "did you mean 'load'?",
    ),
    file(
        "workflow check late.toml",
        "late.toml",
        '[[workflow.steps]]\nname = "a"\nfunction = "add"\n'
        '[[workflow.steps]]\nname = "b"\nfunction = "add"\nat_end = true\nafter = ["a"]\n',
        "late.toml: workflow.steps[1].after[0]",
        "leave it out",
    ),
    file(
        "workflow check slow.toml",
        "slow.toml",
        '[workflow]\ntimeout = "4h"\n[[workflow.steps]]\nname = "a"\nfunction = "add"\n',
        "slow.toml: workflow.timeout",
        "did you mean 'deadline'?",
    ),
    file(
        "workflow check etl.toml",
        "etl.toml",
        '[[workflow.steps]]\nname = "a"\nfunction = "add"\nafter = ["b"]\n'
        '[[workflow.steps]]\nname = "b"\nfunction = "add"\nafter = ["a"]\n',
        "etl.toml: workflow.steps[0].after[0]",
        "cycle: a → b → a",
    ),
    file(
        "apply etl.json",
        "etl.json",
        '{"jobs": [{"name": "etl", "workflow": {"steps": [{"name": "load", "function": "add"}, '
        '{"name": "page", "function": "add", "after": ["load"], "when": "steps.load.result >"}]}}]}',
        "etl.json: job 'etl': workflow.steps[1].when",
        "at column 20: it ends too soon",
    ),
    file(
        "workflow check etl.toml",
        "etl.toml",
        '[[workflow.steps]]\nname = "load"\nfunction = "add"\n'
        '[[workflow.steps]]\nname = "page"\nfunction = "add"\nwith = {x = {cel = "steps.laod.result"}}\n',
        "etl.toml: workflow.steps[1].with.x.cel",
        "there is no step 'laod'; did you mean 'load'?",
    ),
    file(
        "workflow check jobs.json",
        "jobs.json",
        '{"jobs": [{"name": "x", "function": "add"}]}',
        "jobs.json",
        "has no job with 'workflow'",
    ),
    file("import crontab tab", "tab", "0 9 * *\n", "line 1", "4 time fields instead of 5"),
    file("import crontab tab", "tab", "\n61 9 * * * ls\n", "line 2", "between 0 and 59"),
    file("import crontab tab", "tab", b"0 9 * * * echo \xe9\n", "tab", "not UTF-8"),
    file("import crontab tab", "tab", "CRON_TZ=Mars/Base\n0 9 * * * ls\n", "CRON_TZ", "an IANA name"),
    file(
        "config check my.toml",
        "my.toml",
        '[secrets.hook]\nfrom = "env:HOOK"\n',
        "secrets: 'hook'",
        "needs tenants",
        codes=_NOT_WELL,
    ),
    file(
        "config check my.toml",
        "my.toml",
        '[mail]\nurl = "smtp://me:hunter2@mail.example.com"\n',
        "mail.url",
        "mail.password",
        codes=_NOT_WELL,
    ),
    file(
        "config check my.toml",
        "my.toml",
        "[executors.container]\nimage = ['a']\n",
        "executors.container.image",
        "did you mean 'executors.container.images'?",
        codes=_NOT_WELL,
    ),
    file(
        "config check my.toml",
        "my.toml",
        "[executors.kubernetes]\nnamespaces = ['Batch']\n",
        "executors.kubernetes.namespaces",
        "of a-z, 0-9, -",
        codes=_NOT_WELL,
    ),
    file(
        "config check my.toml",
        "my.toml",
        "[executors.grpc]\nallow = ['nowhere!']\n",
        "executors.grpc.allow",
        "a host, with or without a port",
        codes=_NOT_WELL,
    ),
    file("config check my.toml", "my.toml", "port = = 1\n", "my.toml", "line 1", codes=_NOT_WELL),
    file("config check my.toml", "my.toml", "prot = 1\n", "prot", "did you mean 'port'?", codes=_NOT_WELL),
    file(
        "config check my.toml",
        "my.toml",
        "[worker]\nslots = 'many'\n",
        "worker.slots",
        "a whole number from 0 to 10000",
        codes=_NOT_WELL,
    ),
    file("calendar import off days.ics --dry-run", "days.ics", "hello\n", "line 1", "BEGIN:VCALENDAR"),
    file("calendar put off --file d.json", "d.json", '{"days": 1}', "days", "there is no such field"),
    module("up nowhere:app", "", "nowhere", "there is no module 'nowhere'"),
    module("up shop.py", "", "shop.py", "write shop:app"),
    module(
        "up shop", "from mainspring import App\nmain = App()\n", "has no 'app'", "did you mean shop:main?"
    ),
    module("up shop", "app = 5\n", "int", "write app = App() in the module"),
    module("up shop", "import nowhere_pkg\n", "shop.py, line 1", "'nowhere_pkg', which is not installed"),
    module("up shop", _BROKEN_JOB, "shop.py, line 6: cron: hour", "between 0 and 23"),
]
