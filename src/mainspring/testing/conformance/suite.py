"""The list of the suite's classes, and how a test module collects them."""

from __future__ import annotations

from mainspring.testing.conformance import (
    cancelling,
    census,
    claim_repeats,
    claiming,
    claiming_quarantined,
    claiming_speculative,
    claiming_straight,
    claiming_together,
    completion,
    due_clocks,
    edges,
    fencing,
    fire_ranges,
    firing,
    firing_outlined,
    inspection,
    jobs,
    liveness,
    model,
    nodes,
    pausing,
    policies,
    submission,
    upkeep,
)

SUITE: tuple[type, ...] = (
    jobs.Jobs,
    jobs.Edits,
    pausing.Pauses,
    jobs.Deletes,
    due_clocks.DueClocks,
    due_clocks.DueClocksByPriority,
    due_clocks.FiresHeldBackByJitter,
    firing.Firing,
    firing.EveryFireLeavesARecordLaw4,
    firing.StalePlanLosesLaw2,
    firing.StaleEpochIsFencedLaw3,
    firing_outlined.Outlines,
    firing_outlined.FiringInSets,
    firing_outlined.StaleClocksOfSetsLoseLaw2,
    firing_outlined.StaleEpochFencesSetsLaw3,
    fire_ranges.FireRanges,
    fire_ranges.StaleFireRangeStepLosesLaw2,
    submission.Submission,
    submission.Idempotency,
    claiming.Lanes,
    claiming.Claiming,
    claiming.NoDoubleClaim,
    claim_repeats.ClaimRepeats,
    claiming_quarantined.RunsThatCrashedAreQuarantined,
    claiming_together.ClaimingTogether,
    claiming_speculative.SpeculativeClaims,
    claiming_straight.SubmitClaimed,
    claiming_straight.SubmitClaimedIsRefused,
    completion.Completion,
    fencing.StaleTokenIsRefusedLaw3,
    fencing.AnotherSessionIsRefusedLaw3,
    fencing.RepeatedReportIsApplied,
    cancelling.Cancel,
    cancelling.Expiry,
    liveness.Sessions,
    liveness.Reconciliation,
    liveness.Orphans,
    nodes.Nodes,
    inspection.Inspection,
    inspection.NewestRuns,
    upkeep.Upkeep,
    census.CensusAndTally,
    policies.Policies,
    edges.Precision,
    edges.SizesAndText,
    edges.EmptyLists,
    edges.LargeBatches,
    edges.Atomicity,
    edges.OppositeLockOrdersLaw6,
    model.AgreesWithMemory,
)
"""The classes of the suite. Each has `__test__ = False` until a store's test file collects it."""


def collect(module: str) -> dict[str, type]:
    """Return a collectable subclass of every class of the suite, for the namespace of a test module."""
    return {
        f"Test{suite.__name__}": type(
            f"Test{suite.__name__}",
            (suite,),
            {"__test__": True, "__module__": module, "__doc__": suite.__doc__},
        )
        for suite in SUITE
    }
