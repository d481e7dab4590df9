"""`mainspring backup` and `mainspring restore`: a copy of the store, and proof that it is whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mainspring.cli.completion import complete_files
from mainspring.cli.options import json_option, read_choices, shown_options, store_options
from mainspring.cli.output import print_json, show_instant
from mainspring.host.exit_codes import ExitCode

if TYPE_CHECKING:
    from mainspring.config.settings import StoreLocation
    from mainspring.config.sources import Choices
    from mainspring.core.backups import BackupManifest, KeyCheck, Proof, Restored

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


@click.command("backup")
@click.argument("file", metavar="FILE", shell_complete=complete_files)
@store_options
@shown_options
@json_option
@click.pass_context
def backup_command(context: click.Context, /, file: str, *, as_json: bool, **_: Any) -> None:
    """Write a backup of the store to FILE, and what is in it to FILE.manifest.json.

    Servers and workers go on meanwhile. It reads the store itself, so it runs where the store can be reached: on
    SQLite, as the server's user. PostgreSQL's program pg_dump has to be installed, at least as new as the server.
    """
    from mainspring.cli.calling import plain
    from mainspring.host.backing_up import back_up
    from mainspring.host.backup_files import manifest_of

    choices = read_choices(context).require()
    manifest = asyncio.run(back_up(location_of(choices), Path(file)))
    if as_json:
        print_json(plain(manifest))
        return
    facts = manifest.store
    seal = "nothing is sealed" if facts.seal is None else f"seal {facts.seal.id}, digest {facts.seal.digest}"
    click.echo(f"{file}: {_size(manifest.file.bytes)}, as of {show_instant(manifest.taken_at)}")
    click.echo(f"rows: {sum(facts.rows.values()):,} in {len(facts.rows)} tables, schema {facts.schema:04}")
    click.echo(f"ledger: {facts.ledger.fires:,} fires of {facts.ledger.jobs:,} jobs")
    click.echo(f"audit: {seal}")
    files = facts.rows.get("archive_part", 0)
    if files:
        click.echo(f"not in it: the archive, {files:,} files; copy those as you copy other files")
    if facts.rows.get("encryption_key", 0):
        click.echo(
            "not in it: the keys with which the store is encrypted; keep a copy of keys_file elsewhere"
        )
    click.echo(
        f"Keep it together with {manifest_of(Path(file))}, by which a restore proves that all is there."
    )


@click.command("restore")
@click.argument("file", metavar="FILE", shell_complete=complete_files)
@store_options
@shown_options
@json_option
@click.pass_context
def restore_command(context: click.Context, /, file: str, *, as_json: bool, **_: Any) -> int:
    """Fill an empty store from FILE, which `mainspring backup` wrote, and prove that it is whole.

    The store is a folder without a store in it, or an empty database. Servers and workers from before the restore are
    shut out of it: end them, and start them anew. Exit code 3 if the store is not what its manifest says, or its audit
    or its ledger are not whole.
    """
    from mainspring.cli.calling import plain
    from mainspring.config.processes import store_option
    from mainspring.host.backing_up import restore

    choices = read_choices(context).require()
    manifest, restored, proof, keys = asyncio.run(
        restore(
            location_of(choices),
            Path(file),
            store_option=store_option(choices),
            kept=choices["history.keep"].value,
            keep_audit=choices["audit.keep"].value,
            keys_file=choices["keys_file"].value,
        )
    )
    if as_json:
        said = {"backup": manifest, "sessions": restored.sessions, "runs": restored.runs, "proof": proof}
        said |= {"keys": keys}
        print_json({name: plain(part) for name, part in said.items()} | {"holds": proof.holds})
    else:
        _print_restored(manifest, restored, proof, keys)
    return ExitCode.DONE if proof.holds else ExitCode.NOT_WELL


def location_of(choices: Choices) -> StoreLocation:
    """Return the store that the choices name."""
    from mainspring.config.processes import read_location
    from mainspring.errors import InvalidInput
    from mainspring.plugins import load_plugins

    try:
        return read_location(choices, schemes=load_plugins().schemes)
    except InvalidInput as error:
        raise choices.tell(error) from None


def _print_restored(manifest: BackupManifest, restored: Restored, proof: Proof, keys: KeyCheck) -> None:
    rows = manifest.store.rows
    click.echo(f"restored as of {show_instant(manifest.taken_at)}, from Mainspring {manifest.product}")
    if proof.differences:
        click.echo("rows: not as counted at the backup")
        for difference in proof.differences:
            click.echo(f"  {difference}")
    else:
        click.echo(f"rows: {sum(rows.values()):,} in {len(rows)} tables, as counted at the backup")
    click.echo(_say_audit(proof))
    click.echo(_say_ledger(proof))
    click.echo(
        f"from before: {restored.sessions:,} sessions of workers ended; {restored.runs:,} runs were under way and"
        " count as lost; epochs, revisions and ids go on from where no server of before has been"
    )
    if keys.used:
        click.echo(f"encryption: with {', '.join(keys.used)}; {_say_keys(keys)}")
    if proof.holds:
        click.echo("Start the servers, then the workers. Fires since then are missed fires.")
    else:
        click.echo("This is not what was backed up: start nothing on it before you know why.")


def _say_keys(keys: KeyCheck) -> str:
    lost = "before you start a server; without it, what it encrypted is lost"
    if keys.missing:
        return f"keys_file of this host lacks {', '.join(keys.missing)}: put it back {lost}"
    if keys.other:
        return f"keys_file of this host has another key as {', '.join(keys.other)}: put the right one there {lost}"
    return "keys_file of this host has them"


def _say_audit(proof: Proof) -> str:
    if proof.broken_seal is not None:
        return f"audit: broken, {proof.broken_seal}"
    return f"audit: {proof.seals:,} seals over {proof.entries:,} entries, all of them whole"


def _say_ledger(proof: Proof) -> str:
    text = (
        f"ledger: {proof.owed:,} fires owed by {proof.jobs:,} jobs in the week before,"
        f" {proof.missing:,} missing, {proof.surplus:,} surplus"
    )
    if proof.uneven:
        text += f" ({', '.join(proof.uneven)})"
    return f"{text}; {proof.unknown:,} jobs not known here" if proof.unknown else text


def _size(count: int) -> str:
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{count} bytes" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"
