"""Operations on accounts and access tokens."""

from __future__ import annotations

from mainspring.core.rights import Right
from mainspring.wire.access import (
    AccountBody,
    AccountPage,
    AccountView,
    MadeTokenView,
    MakeTokenBody,
    MeView,
    TokenPage,
    TokenView,
)
from mainspring.wire.operation import Body, Operation, Parameter
from mainspring.wire.operations.common import API, LIMIT

_ACCOUNT = f"{API}/accounts/{{account}}"
_TOKENS = f"{API}/tokens"
_TOKEN = f"{_TOKENS}/{{token}}"

GET_ME = Operation(
    id="get_me",
    method="GET",
    path=f"{API}/me",
    right=Right.SELF,
    summary="Say who calls",
    description="Return the account and the token of this request, and what they may do.",
    answer=MeView,
)
LIST_ACCOUNTS = Operation(
    id="list_accounts",
    method="GET",
    path=f"{API}/accounts",
    right=Right.ADMIN,
    summary="List accounts",
    description="Return a page of accounts, by name.",
    query=(LIMIT, Parameter("after", "Only accounts after this one: the `next` of the previous page.")),
    answer=AccountPage,
)
GET_ACCOUNT = Operation(
    id="get_account",
    method="GET",
    path=_ACCOUNT,
    right=Right.ADMIN,
    summary="Get an account",
    description="Return an account, and what it may do.",
    answer=AccountView,
)
UPSERT_ACCOUNT = Operation(
    id="upsert_account",
    method="PUT",
    path=_ACCOUNT,
    right=Right.ADMIN,
    summary="Set an account",
    description="Create an account, or change what the body says of it. The roles that it names are then all that the"
    " account has. That holds on all servers within two seconds, for the tokens that it has, too. Accounts are not"
    " deleted, because records name them; disable those that are no longer needed.",
    body=Body(AccountBody, AccountBody),
    answer=AccountView,
    statuses=(200, 201),
    is_conflicting=True,
)
MAKE_TOKEN = Operation(
    id="make_token",
    method="POST",
    path=_TOKENS,
    right=Right.SELF,
    summary="Make an access token",
    description="Make a token for an account, and show it once. Everyone may make tokens for the own account, which can"
    " do no more than the one that asks. As long as there is no account, this makes the first one, too: then only"
    " callers with a token are answered.",
    body=Body(MakeTokenBody, MakeTokenBody),
    answer=MadeTokenView,
    statuses=(201,),
    is_conflicting=True,
)
LIST_TOKENS = Operation(
    id="list_tokens",
    method="GET",
    path=_TOKENS,
    right=Right.SELF,
    summary="List access tokens",
    description="Return a page of tokens without their secrets: those of the own account, for administrators all.",
    query=(
        LIMIT,
        Parameter("account", "Only tokens of this account."),
        Parameter("after", "Only tokens after this one: the `next` of the previous page."),
    ),
    answer=TokenPage,
)
ROTATE_TOKEN = Operation(
    id="rotate_token",
    method="POST",
    path=f"{_TOKEN}/rotate",
    right=Right.SELF,
    summary="Replace an access token",
    description="Make a token that may do the same, and show it once. It lasts as long if an administrator asks, or"
    " else ends when the old one would have. The old one, which is named by its prefix, works for 24 hours more.",
    answer=MadeTokenView,
    statuses=(201,),
    is_conflicting=True,
)
REVOKE_TOKEN = Operation(
    id="revoke_token",
    method="POST",
    path=f"{_TOKEN}/revoke",
    right=Right.SELF,
    summary="Revoke an access token",
    description="End a token, which is named by its prefix. No server takes it after two seconds.",
    answer=TokenView,
)
