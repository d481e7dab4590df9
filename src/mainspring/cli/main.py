"""`mainspring`: the entry point and its commands. Each command is loaded when it is called."""

from __future__ import annotations

import gc
import importlib
import os
import sys

import click

from mainspring.errors import Conflict, InvalidFields, InvalidInput, MainspringError, NotFound
from mainspring.host.exit_codes import ExitCode

_COMMANDS = {
    # name: (module below mainspring.cli.commands, its command, help)
    "account": ("account", "account_group", "Set who may use the API, and what each may do."),
    "alert": ("alert", "alert_group", "Show what is wrong now, and set the rules that find it."),
    "apply": ("applying", "apply_command", "Make the jobs of files what the files say."),
    "archive": ("archive", "archive_group", "Read the history of years, and write days of it."),
    "artifact": ("artifact", "artifact_group", "Show and fetch the files that runs leave behind."),
    "audit": ("audit", "audit_group", "Show who changed what."),
    "backfill": ("backfill", "backfill_group", "Show, pause, resume and cancel backfills."),
    "backup": ("backup", "backup_command", "Write a backup of the store, while servers run."),
    "blackouts": (
        "blackout",
        "blackouts_command",
        "Show what calendars pause, or have them pause everything.",
    ),
    "calendar": ("calendar", "calendar_group", "Write and show the calendars that jobs name."),
    "channel": ("channel", "channel_group", "Set where alerts are told."),
    "capacity": (
        "capacity",
        "capacity_command",
        "Show how busy workers will be, and how long the disk lasts.",
    ),
    "class": ("priority_class", "class_group", "Set the priority classes that jobs name."),
    "config": ("config", "config_group", "Show and check the settings of processes."),
    "dead": ("dead", "dead_group", "Show and settle dead letters: runs that failed for good."),
    "diff": ("applying", "diff_command", "Show what apply would change."),
    "doctor": ("doctor", "doctor_command", "Look at everything, and say what is wrong and what to do."),
    "event": ("event", "event_group", "Send events, which start jobs, and list those that are kept."),
    "export": ("applying", "export_command", "Print jobs as a file for apply."),
    "import": ("importing", "import_group", "Import the jobs of another tool."),
    "job": ("job", "job_group", "Add, show, change and run jobs."),
    "keys": ("keys", "keys_group", "Make keys that encrypt what the store holds."),
    "label": ("label", "label_group", "Set how many runs that need a label may be under way."),
    "ledger": ("ledger", "ledger_command", "Prove that no fire was missed, and say why some made no run."),
    "limit": ("limit", "limit_group", "Set limits that jobs share."),
    "logging": ("logging", "logging_command", "Set for a while which lines a server writes to its log."),
    "login": ("login", "login_command", "Sign in, so that your commands need no token."),
    "logout": ("login", "logout_command", "End the session that login began."),
    "monitor": ("monitor", "monitor_group", "Watch jobs that run elsewhere and say so by pings."),
    "next": ("next", "next_command", "Show when a cron expression fires; needs no server."),
    "pause": ("pause", "pause_command", "Stop everything for a while, or show what is stopped."),
    "redrive": ("redrive", "redrive_group", "Show, pause, resume and cancel redrives of dead letters."),
    "restore": (
        "backup",
        "restore_command",
        "Fill an empty store from a backup, and prove that it is whole.",
    ),
    "resume": ("pause", "resume_command", "End the pause of everything."),
    "run": ("run", "run_group", "Show, count, cancel and repeat runs."),
    "server": ("server", "server_command", "Run API and scheduler; several share one PostgreSQL."),
    "queue": ("queue", "queue_group", "Set how queues are served, and stop them."),
    "tenant": ("tenant", "tenant_group", "Set the shares and caps of tenants, and stop them."),
    "token": ("token", "token_group", "Make, list, replace and revoke access tokens."),
    "silence": ("silence", "silence_group", "Tell nothing of some alerts for a while."),
    "slo": ("slo", "slo_group", "Set objectives for runs, and see what is left of their budgets."),
    "status": ("status", "status_command", "Show the cluster at a glance, and what needs attention."),
    "usage": ("usage", "usage_command", "Show how many runs were made and ended, how late and how long."),
    "top": ("top", "top_command", "Show live what the cluster does."),
    "up": ("up", "up_command", "Run scheduler, API and a worker in one process."),
    "workers": ("workers", "workers_command", "List the live workers, and how busy they are."),
    "workflow": ("workflow", "workflow_group", "Check, draw and follow jobs that run steps."),
    "worker": ("worker", "worker_command", "Run jobs for a server, or straight from PostgreSQL."),
}
_EXTENSIBLE = frozenset(
    {
        "apply",
        "backup",
        "diff",
        "doctor",
        "export",
        "import",
        "job",
        "restore",
        "server",
        "up",
        "worker",
        "workflow",
    }
)
"""Commands that use the triggers, targets, executors or stores that packages add."""
_GC_THRESHOLD = 50_000
"""Loading modules makes many objects and hardly any garbage. Collecting at every 700 objects slows a start by 0.1 s."""


class LazyGroup(click.Group):
    """Knows the names of its commands, and loads only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, sorted."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; None if there is none with that name."""
        if cmd_name not in _COMMANDS:
            return None
        if cmd_name in _EXTENSIBLE:
            from mainspring.plugins import load_plugins

            load_plugins()  # first, because options and descriptions are made from what it finds
        module, attribute, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(
            importlib.import_module(f"mainspring.cli.commands.{module}"), attribute
        )
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][2]) for name in self.list_commands(ctx)])


def _show_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        import mainspring

        click.echo(f"mainspring {mainspring.__version__}")
        context.exit()


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version.",
)
def cli() -> None:
    """Mainspring: a distributed job scheduler.

    Commands that talk to a server find it by --server, MAINSPRING_SERVER, or the setting `server` in a file
    (default http://127.0.0.1:8620).
    """


def main() -> None:
    """Run a command, and end the process with its exit code. An error is a line for each wrong field, no traceback."""
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run a command and return its exit code."""
    try:
        result = cli.main(args=arguments, prog_name="mainspring", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except SystemExit as error:  # click raises this when the reader of our output is gone
        return error.code if isinstance(error.code, int) else ExitCode.FAILED
    except click.ClickException as error:
        error.show()
        _print_suggestion(error)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _print_error("interrupted")
        return ExitCode.INTERRUPTED
    except MainspringError as error:
        for one in error.errors if isinstance(error, InvalidFields) else (error,):
            _print_error(str(one))
        _print_remedy(error, arguments)
        return ExitCode.REFUSED if isinstance(error, InvalidInput | Conflict | NotFound) else ExitCode.FAILED
    except BrokenPipeError:
        _abandon_output()
        return ExitCode.FAILED
    except OSError as error:
        _print_error(str(error))
        return ExitCode.FAILED
    return result if isinstance(result, int) else ExitCode.DONE


def _print_suggestion(error: click.ClickException) -> None:
    from mainspring.cli.suggestions import suggest

    meant = suggest(error) if isinstance(error, click.UsageError) else None
    if meant is not None:
        click.echo(f"Try: {meant}", err=True)


def _print_remedy(error: MainspringError, arguments: list[str]) -> None:
    from mainspring.cli.suggestions import remedy_for

    remedy = remedy_for(error, arguments)
    if remedy is not None:
        click.echo(f"Try: {remedy}", err=True)


def _print_error(message: str) -> None:
    click.echo(f"error: {' '.join(message.split())}", err=True)


def _abandon_output() -> None:
    """Discard the rest of the output, because its reader is gone. Otherwise the flush at exit would fail as well."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
