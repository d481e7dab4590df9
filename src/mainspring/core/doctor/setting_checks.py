"""Checks of the settings of this host, and of the server that answers here."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.doctor.facts import InstallationFacts, keys_lost
from mainspring.core.doctor.findings import Finding, fail, fine, number, tell, warn

_SOON = 14 * 86_400.0
_LATE = 86_400.0
"""How long after its time a day may wait for the archive."""


def settings(facts: InstallationFacts) -> Finding:
    """The settings can be read, and fit each other."""
    problems = facts.settings.problems
    if problems:
        return fail(
            f"{number(len(problems), 'problem')}: {problems[0]}",
            "a process that reads them does not start",
            "mainspring config check",
        )
    return fine("the settings are right")


def server_answers(facts: InstallationFacts) -> Finding:
    """A server answers at the address that commands use."""
    if facts.api_error is not None:
        return warn(
            f"no server answers at {facts.address}: {facts.api_error}",
            "commands and workers of this host find none",
            "start a server, or name its address: --server or MAINSPRING_SERVER",
        )
    return fine(f"a server answers at {facts.address}")


def network(facts: InstallationFacts) -> Finding:
    """Strangers cannot reach the API, or are told apart and cannot listen in."""
    found, cluster = facts.settings, facts.store.cluster
    has_accounts = cluster is not None and cluster.accounts > 0
    if not found.is_open:
        return fine("the API is for this machine, or encrypted")
    if not has_accounts:
        return fail(
            "everyone in the network may define and run jobs"
            + (" and commands" if found.allows_shell else ""),
            "there are no accounts, and trusted_network lets everyone in who can reach the address",
            "mainspring token create --role admin, and give tokens to commands and workers",
        )
    return warn(
        "access tokens pass the network in the clear",
        "trusted_network is set, and there is no certificate: who listens in, can use them",
        "give --tls-cert and --tls-key, or put a proxy in front: --behind-proxy",
    )


def certificate(facts: InstallationFacts) -> Finding | None:
    """The certificate is valid for some time yet."""
    left = facts.settings.certificate_ends_in
    if left is None:
        return None
    remedy = "renew it; the server reads it again within a minute"
    if left <= 0:
        return fail(f"the certificate is over for {tell(left)}", "no client accepts it any more", remedy)
    if left < _SOON:
        return warn(f"the certificate ends in {tell(left)}", "then no client accepts it any more", remedy)
    return fine(f"the certificate is valid for {tell(left)}")


def secrets(facts: InstallationFacts) -> Finding | None:
    """Files with secrets are for one user alone."""
    files = facts.settings.secrets
    if not files:
        return None
    for file in files:
        if file.is_private is None:
            return fail(
                f"{file.setting}: {file.path} cannot be read",
                "what needs it fails",
                "see that it is there, and that this user may read it",
            )
        if not file.is_private:
            return warn(
                f"{file.setting}: others may read {file.path}",
                "who reads it, can do all that its owner can",
                f"chmod 600 {file.path}",
            )
    return fine(f"{number(len(files), 'file')} with secrets, each for this user alone")


def vault(facts: InstallationFacts) -> Finding | None:
    """The secrets that are in Vault can be read from here."""
    found = facts.settings
    if not found.vault_secrets:
        return None
    if found.vault_errors:
        more = len(found.vault_errors) - 1
        return fail(
            found.vault_errors[0] + (f"; and {number(more, 'more problem')}" if more else ""),
            "runs and messages that need it fail, and are tried again",
            "mainspring config check tells all; see vault.address, the way in, and the policies of its token",
        )
    return fine(f"{number(found.vault_secrets, 'secret')} in Vault can be read")


def shell(facts: InstallationFacts) -> Finding:
    """Commands are run only where that is meant."""
    found = facts.settings
    if found.allows_shell and not found.has_shell_list:
        return warn(
            "jobs may run any command",
            "who may edit jobs, can do all that the worker's user can",
            "name the programs: executors.shell.allow",
        )
    return fine("jobs run listed commands only" if found.allows_shell else "jobs run no commands")


def executors(facts: InstallationFacts) -> Finding:
    """What a worker of this host needs for the executors that are turned on is there."""
    found = facts.settings
    if found.executor_problems:
        what, remedy = found.executor_problems[0]
        more = len(found.executor_problems) - 1
        return fail(
            what + (f"; and {number(more, 'more problem')}" if more else ""),
            "a worker of this host does not start",
            remedy,
        )
    if not found.executors:
        return fine("functions, commands and callbacks need nothing more")
    return fine(f"workers have what they need for {', '.join(found.executors)}")


def zone_data(facts: InstallationFacts) -> Finding | None:
    """This host plans with the zone data that the cluster goes by."""
    cluster = facts.store.cluster
    here = facts.settings.tzdata
    if cluster is None or cluster.tzdata is None or not here:
        return None
    if here < cluster.tzdata:
        return warn(
            f"this host has zone data {here}, and the cluster goes by {cluster.tzdata}",
            "a server of this host would own no shards: it might plan other fires",
            "upgrade the package tzdata, or the system's",
        )
    return fine(f"zone data {here}")


def archive(facts: InstallationFacts) -> Finding | None:
    """Days of the history get into the archive before they are removed."""
    found, cluster = facts.settings, facts.store.cluster
    if found.archive is None:
        return _no_archive(facts)
    mine = None if cluster is None else cluster.installation
    if mine is not None and found.archive_owner not in {None, mine}:
        return fail(
            f"the archive {found.archive} is of the installation {found.archive_owner}, and this is {mine}",
            "nothing is removed from the history, so the store grows",
            "give each installation a folder or prefix of its own; if this one takes the archive over, remove"
            " history/installation.json from it",
        )
    if found.archive_error is not None:
        return fail(
            f"the archive cannot be used: {found.archive_error}",
            "nothing is removed from the history until it takes what is over, so the store grows",
            "see that it is there, and that this user may write to it; then servers go on by themselves",
        )
    waiting = None if cluster is None else cluster.unarchived_for
    if waiting is not None and waiting > found.history_keep + _LATE:
        return warn(
            f"a day that ended {tell(waiting)} ago is not in the archive, and history.keep is"
            f" {tell(found.history_keep)}",
            "it stays in the history until it is, so the store grows",
            "see that a server schedules, and its log for archive_unavailable and archive_mismatch",
        )
    return fine(f"the archive {found.archive} can be reached, and has what is over")


def artifacts(facts: InstallationFacts) -> Finding | None:
    """Files that runs leave behind get to where they are kept."""
    found = facts.settings
    if found.artifacts is None:
        return None
    if found.artifacts_error is not None:
        return fail(
            f"the place for files of runs cannot be used: {found.artifacts_error}",
            "a job that leaves a file behind fails, and what is over is not removed",
            "see that it is there, and that this user may write to it; then servers go on by themselves",
        )
    return fine(f"files of runs can be written to {found.artifacts}")


def _no_archive(facts: InstallationFacts) -> Finding | None:
    """Every server knows the archive that one of them writes."""
    cluster = facts.store.cluster
    if cluster is None or cluster.archive_url is None:
        return None
    return warn(
        f"servers write days of the history to {cluster.archive_url}, and this host has no archive.url",
        "a server of this host removes nothing that is not there, and writes nothing there",
        "set archive.url as on the other servers; to do without: mainspring archive end",
    )


def encryption(facts: InstallationFacts) -> Finding | None:
    """The keys that the store's contents are encrypted with are in the file of this host."""
    cluster, mine = facts.store.cluster, facts.settings.keys
    used = () if cluster is None else cluster.keys
    if not used:
        return (
            None
            if mine is None
            else fine("nothing is encrypted yet; a server that starts with keys_file begins")
        )
    missing, other = keys_lost(facts.settings, cluster)
    if mine is None:
        return warn(
            f"the store is encrypted with {number(len(used), 'key')}, and this host has no keys_file that can be read"
            + _say_uses(missing, facts),
            "a server that reads these settings does not start",
            "set keys_file to the file that the servers have",
        )
    if missing:
        return fail(
            f"keys_file lacks {', '.join(missing)}, with which the store was encrypted{_say_uses(missing, facts)}",
            "a server that reads these settings does not start; without the key, what it encrypted is lost",
            "put the key back, below the one that is to write",
        )
    if other:
        return fail(
            f"keys_file has another key under the id {', '.join(other)} than the one with which the store was"
            f" encrypted{_say_uses(other, facts)}",
            "a server that reads these settings does not start; without the key, what it encrypted is lost",
            "put the right key back under its id, and give the other one an id of its own",
        )
    return fine(f"encrypted with {number(len(used), 'key')}: {', '.join(used)}; {mine[0]} writes")


def _say_uses(keys: Sequence[str], facts: InstallationFacts) -> str:
    """Return what of the store needs these keys, as the end of a sentence; nothing if that was not counted."""
    said = []
    for key_id in keys:
        uses = facts.key_uses.get(key_id)
        if uses is None:
            continue
        counts = ((uses.jobs, "job"), (uses.runs, "run that waits"), (uses.dead_runs, "dead letter"))
        named = [_count(count, noun) for count, noun in counts if count]
        said.append(f"{key_id} is needed by {', '.join(named) if named else 'ended runs at most'}")
    return f" ({'; '.join(said)})" if said else ""


def _count(count: int, noun: str) -> str:
    if noun == "run that waits" and count != 1:
        return f"{count:,} runs that wait"
    return number(count, noun)
