"""Accounts and access tokens."""

from __future__ import annotations

from mainspring.api.call import Answer, Call, Endpoint, handles
from mainspring.api.cookies import csrf_of, is_secure, read_session
from mainspring.api.errors import Rejected
from mainspring.core.access import read_grants, read_prefix
from mainspring.core.fields import read_word
from mainspring.wire import operations
from mainspring.wire.access import (
    AccountBody,
    AccountPage,
    AccountView,
    MadeTokenView,
    MakeTokenBody,
    MeView,
    TokenPage,
    TokenView,
    read_wish,
    view_account,
    view_made_token,
    view_me,
    view_token,
)


@handles(operations.GET_ME)
async def get_me(call: Call) -> MeView:
    text = None
    if call.identity is not None and "authorization" not in call.fields:
        text = read_session(call.fields, secure=is_secure(call.scope))
    csrf = None if text is None else csrf_of(text)
    return view_me(call.principal, call.identity, call.engine.now(), csrf=csrf)


@handles(operations.LIST_ACCOUNTS)
async def list_accounts(call: Call) -> AccountPage:
    limit: int = call.query["limit"]
    found = await call.engine.access.list_accounts(after=call.query.get("after"), limit=limit)
    following = found[-1].name if len(found) == limit else None
    return AccountPage([view_account(account) for account in found], following)


@handles(operations.GET_ACCOUNT)
async def get_account(call: Call) -> AccountView:
    return view_account(await call.engine.access.get_account(call.key))


@handles(operations.UPSERT_ACCOUNT)
async def upsert_account(call: Call, body: AccountBody) -> Answer[AccountView]:
    name = read_word(call.key, "account")
    grants = None if body.grants is None else read_grants(body.grants, "grants")
    if call.identity is None and not await call.engine.access.has_accounts():
        raise Rejected(
            409,
            "there are no accounts yet; make the first one with a token: mainspring token create --role admin",
        )
    account, is_new = await call.engine.access.put_account(
        name, grants, hides_payloads=body.hides_payloads, is_disabled=body.disabled, by=call.actor
    )
    await call.services.on_access_changed()
    return Answer(view_account(account), status=201 if is_new else 200)


@handles(operations.MAKE_TOKEN)
async def make_token(call: Call, body: MakeTokenBody) -> MadeTokenView:
    wish = read_wish(body)
    if call.identity is None and not await call.engine.access.has_accounts():
        account = wish.account or read_word(call.principal.name.replace(" ", "-"), "account")
        made = await call.engine.access.make_first_token(account, wish, by=call.actor)
        await call.services.on_access_changed()
    else:
        made = await call.engine.access.make_token(wish, asker=call.identity, by=call.actor)
    return view_made_token(made.token, made.text)


@handles(operations.LIST_TOKENS)
async def list_tokens(call: Call) -> TokenPage:
    query = call.query
    limit: int = query["limit"]
    found = await call.engine.access.list_tokens(
        account=query.get("account"), after=query.get("after"), limit=limit, asker=call.identity
    )
    following = found[-1].prefix if len(found) == limit else None
    now = call.engine.now()
    return TokenPage([view_token(token, now) for token in found], following)


@handles(operations.ROTATE_TOKEN)
async def rotate_token(call: Call) -> MadeTokenView:
    made = await call.engine.access.rotate(read_prefix(call.key), asker=call.identity, by=call.actor)
    await call.services.on_access_changed()
    return view_made_token(made.token, made.text)


@handles(operations.REVOKE_TOKEN)
async def revoke_token(call: Call) -> TokenView:
    token = await call.engine.access.revoke(read_prefix(call.key), asker=call.identity, by=call.actor)
    await call.services.on_access_changed()
    return view_token(token, call.engine.now())


ROUTES: list[Endpoint] = [
    get_me,
    list_accounts,
    get_account,
    upsert_account,
    make_token,
    list_tokens,
    rotate_token,
    revoke_token,
]
