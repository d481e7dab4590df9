"""Says which command or option somebody probably meant: by meaning, from the words of other tools, or by spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType

import click

from mainspring.errors import Conflict, MainspringError, NotAuthenticated, NotFound, Unreachable

_NO_COMMAND = re.compile(r"No such command '([^']+)'")
_NO_OPTION = re.compile(r"No such option:? '?(--?[\w-]+)")

TOP: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("jobs", "ls", "list", "tasks", "schedules"), "job list"),
        **dict.fromkeys(("add", "create", "schedule"), "job add"),
        **dict.fromkeys(("delete", "remove", "rm"), "job rm"),
        **dict.fromkeys(("edit", "show", "describe", "inspect", "get"), "job show"),
        **dict.fromkeys(("trigger", "enqueue", "submit", "call", "apply", "exec", "execute"), "job run"),
        **dict.fromkeys(("ps", "top", "health", "info", "stats", "stat"), "status"),
        **dict.fromkeys(("runs", "history", "dags", "executions"), "run list"),
        **dict.fromkeys(("failed", "failures", "errors", "dlq", "dead-letters"), "dead list"),
        **dict.fromkeys(("log", "logs", "tail", "output"), "run logs"),
        **dict.fromkeys(("retry", "rerun", "replay"), "run retry"),
        **dict.fromkeys(("cancel", "kill", "revoke", "terminate", "abort"), "run cancel"),
        **dict.fromkeys(("why", "explain"), "run why"),
        **dict.fromkeys(("count", "counts"), "run count"),
        **dict.fromkeys(("start", "serve", "dev", "standalone", "scheduler-and-worker"), "up"),
        **dict.fromkeys(("scheduler", "beat", "api", "webserver", "daemon"), "server"),
        **dict.fromkeys(("cron", "crontab", "preview", "fires"), "next"),
        **dict.fromkeys(("stop", "disable", "suspend"), "pause"),
        **dict.fromkeys(("unpause", "enable", "continue"), "resume"),
        **dict.fromkeys(("accounts", "users", "user"), "account list"),
        **dict.fromkeys(("tokens", "auth"), "token list"),
        **dict.fromkeys(("events", "signals"), "event list"),
        **dict.fromkeys(("emit", "publish", "send"), "event send"),
        "queues": "queue list",
        "tenants": "tenant list",
        "calendars": "calendar list",
        "limits": "limit list",
        "labels": "label list",
        "classes": "class list",
        "backfills": "backfill list",
        "redrives": "redrive list",
        **dict.fromkeys(("alerts", "alarms"), "alert list"),
        **dict.fromkeys(("channels", "notifications", "notify"), "channel list"),
        **dict.fromkeys(("silences", "mute"), "silence list"),
        **dict.fromkeys(("monitors", "check", "checks", "heartbeat"), "monitor list"),
        **dict.fromkeys(("slos", "objectives", "objective"), "slo list"),
        **dict.fromkeys(("artifacts", "files", "download"), "artifact list"),
        "settings": "config show",
        "missed": "ledger",
    }
)
"""What people type, in the words of other tools, and the command that does it here."""
WITHIN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("delete", "remove", "del", "unset"), ("rm", "delete", "revoke", "remove")),
        **dict.fromkeys(("rm", "erase"), ("delete", "rm", "revoke", "remove")),
        **dict.fromkeys(("ls", "all"), ("list",)),
        **dict.fromkeys(("create", "new", "add", "set", "define"), ("add", "put", "set", "create")),
        **dict.fromkeys(("get", "info", "describe", "inspect", "status", "view", "cat"), ("show",)),
        **dict.fromkeys(("log", "output", "tail"), ("logs",)),
        **dict.fromkeys(("redrive", "rerun", "replay", "restart", "retry"), ("retry", "redrive")),
        **dict.fromkeys(("kill", "stop", "revoke", "abort", "terminate"), ("cancel", "pause")),
        **dict.fromkeys(("renew", "refresh", "replace"), ("rotate",)),
        **dict.fromkeys(("trigger", "enqueue", "submit", "start", "now", "exec"), ("run", "resume")),
        **dict.fromkeys(("disable", "suspend", "off"), ("pause",)),
        **dict.fromkeys(("enable", "unpause", "on", "continue"), ("resume",)),
        **dict.fromkeys(("next", "preview", "upcoming"), ("fires",)),
        **dict.fromkeys(("explain", "reason"), ("why",)),
        **dict.fromkeys(("edit", "update", "modify"), ("add", "set", "put")),
    }
)
"""The same within a group of commands; the first that the group has is meant."""
OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("--timezone", "--time-zone", "--zone"), ("--tz",)),
        **dict.fromkeys(("--url", "--host", "--address", "--broker"), ("--server",)),
        **dict.fromkeys(("--args", "--kwargs", "--data", "--params", "--input"), ("--payload",)),
        **dict.fromkeys(("--countdown", "--in", "--after"), ("--delay",)),
        **dict.fromkeys(("--eta", "--at", "--date", "--when"), ("--run-at",)),
        **dict.fromkeys(("--output", "--format", "--raw"), ("--json",)),
        **dict.fromkeys(("--interval", "--seconds"), ("--every",)),
        **dict.fromkeys(("--cmd", "--exec", "--shell-command"), ("--command",)),
        **dict.fromkeys(("--concurrency", "--workers", "--threads"), ("--slots", "--concurrency")),
        **dict.fromkeys(("--start", "--begin", "--since"), ("--from",)),
        **dict.fromkeys(("--end", "--until"), ("--to",)),
        **dict.fromkeys(("--status", "--filter"), ("--state",)),
        **dict.fromkeys(("--count", "--number", "-n", "--max"), ("--limit",)),
        **dict.fromkeys(("--env", "--settings"), ("--config",)),
        **dict.fromkeys(("--replace", "--overwrite", "--force"), ("--update",)),
    }
)


LISTS: Mapping[str, str] = MappingProxyType(
    {
        "job": "job list",
        "run": "run list",
        "backfill": "backfill list",
        "redrive": "redrive list",
        "calendar": "calendar list",
        "limit": "limit list",
        "class": "class list",
        "priority class": "class list",
        "account": "account list",
        "token": "token list",
        "alert": "alert list",
        "alert rule": "alert rules",
        "channel": "channel list",
        "silence": "silence list",
        "monitor": "monitor list",
        "slo": "slo list",
        "artifact": "artifact list RUN",
    }
)
"""What lists the things of a kind, for somebody who named one that does not exist."""


def remedy_for(error: MainspringError, arguments: Sequence[str]) -> str | None:
    """Return the command that helps on after an error of the product; None if its message says all that there is."""
    if isinstance(error, NotFound) and error.kind in LISTS:
        return f"mainspring {LISTS[error.kind]}"
    if isinstance(error, Conflict) and error.field == "name" and list(arguments[:2]) == ["job", "add"]:
        return "mainspring job add --update"
    if isinstance(error, NotAuthenticated):
        return "export MAINSPRING_TOKEN=ms_…, or mainspring login"
    if isinstance(error, Unreachable) and "certificate" not in str(error):
        return "mainspring up, which starts one, or --server with the address of yours"
    return None


def suggest(error: click.UsageError) -> str | None:
    """Return the command line that was probably meant, without its arguments; None if there is no telling."""
    context = error.ctx
    if context is None:
        return None
    path = context.command_path
    no_command = _NO_COMMAND.match(error.message)
    if no_command is not None and isinstance(context.command, click.Group):
        found = _command(no_command[1], context.command.list_commands(context), is_top=context.parent is None)
        return None if found is None else f"{path} {found}"
    no_option = _NO_OPTION.match(error.message)
    if no_option is not None:
        known = {option for parameter in context.command.params for option in parameter.opts}
        option = next((one for one in OPTIONS.get(no_option[1], ()) if one in known), None)
        return None if option is None else f"{path} {option}"
    return None


def _command(word: str, known: Iterable[str], *, is_top: bool) -> str | None:
    """Return the command that a word means, or else the one that is spelled nearly alike."""
    known = list(known)
    word = word.lower()
    if is_top and word in TOP:
        return TOP[word]
    by_meaning = next((one for one in WITHIN.get(word, ()) if one in known), None) if not is_top else None
    close = _near(word, known) or (get_close_matches(word, TOP, n=1, cutoff=0.8) if is_top else [])
    if by_meaning is not None or not close:
        return by_meaning
    return TOP.get(close[0], close[0]) if is_top else close[0]


def _near(word: str, known: Iterable[str]) -> list[str]:
    """Return the word that is spelled most alike, if any. `jbo` is `job`, but `quit` is not `audit`."""
    names = list(known)
    same = [name for name in names if len(name) == len(word)]
    return get_close_matches(word, names, n=1, cutoff=0.7) or get_close_matches(word, same, n=1)
