"""Calls to addresses that users name: where they may lead, how names are looked up, and a client that holds to it."""

from mainspring.egress.policy import (
    Blocked,
    Destination,
    EgressPolicy,
    check_url,
    is_public,
    make_policy,
    parse_url,
)

__all__ = ["Blocked", "Destination", "EgressPolicy", "check_url", "is_public", "make_policy", "parse_url"]
