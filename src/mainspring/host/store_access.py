"""Makes a token straight in a store: the first one, or another one when the last one is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mainspring.wire.access import MadeTokenView

_FIRST_ACCOUNT = "admin"


class _Bounds(TypedDict, total=False):
    tenant: str | None
    expires_in: str | None
    rate: int | None


async def make_token_in(
    url: str,
    name: str,
    role: str,
    *,
    account: str | None = None,
    queues: Sequence[str] = (),
    **bounds: Unpack[_Bounds],
) -> tuple[MadeTokenView, bool]:
    """Make a token, and say whether it is the first one. Whoever may write to the store may do everything anyway.

    Args:
        url: where the store is. Only PostgreSQL can be asked while servers run.
        account: an account that exists, or the name of the first one; None makes that `admin`.
        queues: the only ones that a worker with the token serves; empty means all.

    Raises:
        InvalidInput: the URL or a value is wrong.
        MainspringError: the store cannot be used.
    """
    from mainspring.clock import UuidSource, sampled_clock
    from mainspring.config.settings import StoreLocation
    from mainspring.engine.usecases.access import AccessControl
    from mainspring.host.acting import acting_process
    from mainspring.host.hosting import make_folder
    from mainspring.runtime import make_store
    from mainspring.wire.access import MakeTokenBody, read_wish, view_made_token
    from mainspring.wire.operations import MAKE_TOKEN

    wish = read_wish(MakeTokenBody(name=name, role=role, account=account, queues=list(queues), **bounds))
    location = StoreLocation.parse(url)
    make_folder(location, "store")
    store = make_store(location)
    await store.open()
    try:
        access = AccessControl(store, clock=await sampled_clock(store.read_time), ids=UuidSource())
        by = acting_process(MAKE_TOKEN.id)
        is_first = not await access.has_accounts()
        if is_first:
            made = await access.make_first_token(account or _FIRST_ACCOUNT, wish, by=by)
        else:
            made = await access.make_token(wish, asker=None, by=by)
    finally:
        await store.close()
    return view_made_token(made.token, made.text), is_first
