"""The open worker protocol in both directions: register, claim, beat, report, leave (design 3.2, 4)."""

from mainspring.wire.protocol.beats import (
    BeatAnswerIn,
    BeatBody,
    BeatView,
    from_beat_reply,
    to_beat_reply,
)
from mainspring.wire.protocol.claims import (
    ClaimAnswerIn,
    ClaimAnswerView,
    ClaimBody,
    DefinitionView,
    LeaseView,
    from_claim,
    from_claim_reply,
    to_claim,
    to_claim_reply,
)
from mainspring.wire.protocol.leases import (
    LeaseKey,
    from_keys,
    to_keys,
)
from mainspring.wire.protocol.reports import (
    LeftOutResult,
    ReportBody,
    ReportItem,
    ReportView,
    from_report,
    to_report,
)
from mainspring.wire.protocol.sessions import (
    WORKER_PROTOCOL,
    RegisterBody,
    SessionBody,
    SessionGranted,
    check_protocol,
    from_registration,
    read_session,
    show_session,
    to_registration,
)

__all__ = [
    "WORKER_PROTOCOL",
    "BeatAnswerIn",
    "BeatBody",
    "BeatView",
    "ClaimAnswerIn",
    "ClaimAnswerView",
    "ClaimBody",
    "DefinitionView",
    "LeaseKey",
    "LeaseView",
    "LeftOutResult",
    "RegisterBody",
    "ReportBody",
    "ReportItem",
    "ReportView",
    "SessionBody",
    "SessionGranted",
    "check_protocol",
    "from_beat_reply",
    "from_claim",
    "from_claim_reply",
    "from_keys",
    "from_registration",
    "from_report",
    "read_session",
    "show_session",
    "to_beat_reply",
    "to_claim",
    "to_claim_reply",
    "to_keys",
    "to_registration",
    "to_report",
]
