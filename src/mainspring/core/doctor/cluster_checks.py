"""Checks of what runs: servers, workers, jobs, queues, the ledger, the audit."""

from __future__ import annotations

from mainspring.core.doctor.facts import ClusterLook, InstallationFacts
from mainspring.core.doctor.findings import Finding, fail, fine, number, tell, warn

_DAY = 86_400.0
_MANY = 1000


def _cluster(facts: InstallationFacts) -> ClusterLook | None:
    return facts.store.cluster


def servers(facts: InstallationFacts) -> Finding | None:
    """A server schedules."""
    cluster = _cluster(facts)
    if cluster is None:
        return None
    alive = [node for node in cluster.nodes if node.is_alive]
    if alive:
        return fine(f"{number(len(alive), 'server')}: {', '.join(sorted({node.host for node in alive}))}")
    if not cluster.jobs:
        return fine("no server schedules, and there are no jobs")
    return fail(
        "no server schedules",
        f"none of {number(cluster.jobs, 'job')} fires",
        "start one: mainspring up, or mainspring server",
    )


def refused_servers(facts: InstallationFacts) -> Finding | None:
    """Every server may own shards."""
    cluster = _cluster(facts)
    if cluster is None:
        return None
    for node in cluster.nodes:
        if node.is_alive and node.refusal is not None:
            cause = {"clock": "its clock is wrong", "tzdata": "its zone data is older than the cluster's"}
            return warn(
                f"the server on {node.host} owns no shards: {cause.get(node.refusal, node.refusal)}",
                "the others do its work; if they end, nothing is scheduled",
                "synchronise its clock by NTP" if node.refusal == "clock" else "upgrade its package tzdata",
            )
    return fine("no server is refused") if cluster.nodes else None


def shards(facts: InstallationFacts) -> Finding | None:
    """Every shard has an owner."""
    cluster = _cluster(facts)
    if cluster is None or not any(node.is_alive for node in cluster.nodes):
        return None
    if cluster.free_shards:
        return warn(
            f"{cluster.free_shards} of 256 shards have no owner",
            "their jobs do not fire; after a server's end that lasts some seconds",
            "run the doctor again; if it stays, see the servers' log for shards_taken and refusals",
        )
    return fine("all shards have an owner")


def versions(facts: InstallationFacts) -> Finding | None:
    """All servers are of one version."""
    cluster = _cluster(facts)
    if cluster is None:
        return None
    found = sorted({node.version for node in cluster.nodes if node.is_alive})
    if len(found) > 1:
        return warn(
            f"servers are of the versions {', '.join(found)}",
            "that is right during an upgrade, and only then",
            "upgrade the others",
        )
    if found and found[0] != facts.product:
        return warn(
            f"the servers are of version {found[0]}, and this program is {facts.product}",
            "commands may ask for what the servers do not know",
            "upgrade the older of the two",
        )
    return fine(f"version {found[0]}") if found else None


def clocks(facts: InstallationFacts) -> Finding | None:
    """Jobs fire on time."""
    cluster = _cluster(facts)
    if cluster is None:
        return None
    if cluster.overdue:
        return fail(
            f"{number(cluster.overdue, 'job')} should have fired, up to {tell(cluster.overdue_by)} ago",
            "servers are behind, or none plans for these jobs",
            "see the log of the servers; write latency and long transactions above are the usual causes",
        )
    return fine(f"none of {number(cluster.jobs, 'job')} is overdue")


def ledger(facts: InstallationFacts) -> Finding | None:
    """No fire is missing or doubled."""
    cluster = _cluster(facts)
    if cluster is None or cluster.ledger is None or cluster.ledger_age is None:
        return None
    found = cluster.ledger
    if found.missing or found.surplus:
        names = ", ".join(job.name for job in found.examples[:3])
        return fail(
            f"{found.missing:,} fires are missing and {found.surplus:,} doubled, of {names}",
            "the record of fires differs from what the schedules owed",
            "mainspring ledger, and report it: this must not happen",
        )
    if cluster.ledger_age > 2 * _DAY:
        return warn(
            f"the ledger was compared {tell(cluster.ledger_age)} ago",
            "a server does so once a day; none did",
            "see the log for ledger_checker",
        )
    return fine(f"{found.expected:,} fires owed, none missing, none doubled, {tell(cluster.ledger_age)} ago")


def workers(facts: InstallationFacts) -> Finding | None:
    """There is a worker."""
    cluster = _cluster(facts)
    if cluster is None:
        return None
    if not cluster.workers and cluster.jobs:
        return warn(
            "there is no worker", "runs wait until there is one", "start one: mainspring worker MODULE:APP"
        )
    return fine(f"{number(cluster.workers, 'worker')} with {number(cluster.slots, 'slot')}")


def queues(facts: InstallationFacts) -> Finding | None:
    """Every queue with ready runs is served."""
    cluster = _cluster(facts)
    if cluster is None:
        return None
    if cluster.queues:
        first = cluster.queues[0]
        more = len(cluster.queues) - 1
        return fail(
            f"{number(first.runs, 'run')} of the queue {first.queue} wait for {tell(first.oldest)}, and no worker"
            f" serves it{f'; so do those of {more} more' if more else ''}",
            "they never start",
            f"start a worker with --queue {first.queue}, or correct the name in the jobs",
        )
    return fine("every queue with ready runs is served")


def dead_letters(facts: InstallationFacts) -> Finding | None:
    """Failed runs are looked after."""
    cluster = _cluster(facts)
    if cluster is None:
        return None
    if cluster.dead:
        return warn(
            f"{number(cluster.dead, 'run')} failed for good and wait for a decision"
            + (": so many hide the new ones" if cluster.dead > _MANY else ""),
            "their work was not done",
            "mainspring dead groups, then redrive or discard them",
        )
    return fine("there are no dead letters")


def channels(facts: InstallationFacts) -> Finding | None:
    """Messages about failures arrive."""
    cluster = _cluster(facts)
    if cluster is None:
        return None
    if cluster.channels:
        first = cluster.channels[0]
        more = len(cluster.channels) - 1
        return warn(
            f"the channel {first.name} takes no messages: {first.error}"
            + (f"; {number(first.waiting, 'message')} wait" if first.waiting else "")
            + (f"; so do {more} more channels" if more else ""),
            "what fails, is not told",
            f"mainspring channel test {first.name}, and set its address anew",
        )
    return fine("no channel refuses its messages")


def audit(facts: InstallationFacts) -> Finding | None:
    """The audit is sealed."""
    cluster = _cluster(facts)
    if cluster is None:
        return None
    if cluster.unsealed_for is not None and cluster.unsealed_for > 300:
        return warn(
            f"entries of the audit are without a seal for {tell(cluster.unsealed_for)}",
            "what is not sealed can be changed unnoticed; the owner of shard 0 seals each 10 s",
            "see that a server schedules, and its log for sealer",
        )
    return fine("the audit is sealed; mainspring audit verify checks it")


def tokens(facts: InstallationFacts) -> Finding | None:
    """No access token is about to end."""
    cluster = _cluster(facts)
    if cluster is None or not cluster.accounts:
        return None
    if cluster.tokens:
        first = cluster.tokens[0]
        more = len(cluster.tokens) - 1
        return warn(
            f"the token {first.name} of {first.account} ends in {tell(first.ends_in)}"
            + (f", and {more} more end soon" if more else ""),
            "who presents it, is not answered then",
            f"{first.account} signs in at the identity provider again: its tokens end 30 days after its last login"
            if first.is_renewed_by_login
            else "mainspring token rotate, and hand out the new one; the old one works for a day yet",
        )
    return fine("no access token ends within two weeks")
