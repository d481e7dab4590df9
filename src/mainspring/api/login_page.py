"""The page at `/login`, which needs no script. All that it shows of others is escaped."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from html import escape

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
:root { --line: #767676; --bad: #b3261e; --good: #1a5fb4; }
@media (prefers-color-scheme: dark) { :root { --line: #8c8c8c; --bad: #ff8a80; --good: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 24rem; padding: clamp(1.5rem, 12vh, 8rem) 1rem 2rem; overflow-wrap: anywhere; }
h1 { font-size: 1.375rem; margin: 0 0 1.25rem; }
label { display: block; margin: 0 0 1rem; }
input, button, .button { border: 1px solid var(--line); border-radius: 6px; display: block; font: inherit;
    min-height: 2.75rem; padding: .5rem .75rem; width: 100%; }
input { margin-top: .25rem; }
button, .button { background: transparent; color: inherit; cursor: pointer; font-weight: 600; text-align: center;
    text-decoration: none; }
.main { background: var(--good); border-color: var(--good); color: Canvas; }
button:hover, .button:hover { filter: brightness(.9); }
a { color: var(--good); }
:focus-visible { outline: 2px solid var(--good); outline-offset: 2px; }
.error { border-left: 3px solid var(--bad); color: var(--bad); margin: 0 0 1.25rem; padding-left: .75rem; }
.or { align-items: center; display: flex; gap: .75rem; margin: 1.25rem 0; }
.or::before, .or::after { border-top: 1px solid var(--line); content: ""; flex: 1; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .375rem .75rem .375rem 0; text-align: left; }
code { border: 1px solid var(--line); border-radius: 6px; display: block; padding: .75rem; user-select: all; }
"""
_HASH = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
PAGE_HEADERS: Mapping[str, str] = {
    "content-security-policy": f"default-src 'self'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'none'",
    "cache-control": "no-store",
    # With no-referrer, browsers would send the forms of this page with the origin `null`.
    "referrer-policy": "same-origin",
}
"""What the answer with a page has instead of the usual headers: its style, and no other, is allowed."""


def write_form(*, account: str = "", error: str | None = None, provider: str | None = None) -> str:
    """Return the page to sign in.

    Args:
        account: what stands in the field for the name.
        error: what was wrong.
        provider: the name of the identity provider at which one may sign in instead.
    """
    wrong = "" if error is None else f'<p class="error" role="alert">{escape(_sentence(error))}</p>'
    other = (
        ""
        if provider is None
        else f'<a class="button main" href="/login/oidc">Sign in with {escape(provider)}</a>\n<p class="or">or</p>'
    )
    rest, first = ("autofocus", "") if account else ("", "autofocus")
    emphasis = ' class="main"' if provider is None else ""
    return _write(
        "Sign in",
        f"""{wrong}{other}
<form method="post" action="/login/form">
<label>Account <input name="account" value="{escape(account)}" autocomplete="username"
autocapitalize="none" spellcheck="false" required {first}></label>
<label>Password or access token
<input name="password" type="password" autocomplete="current-password" required {rest}></label>
<button{emphasis}>Sign in</button>
</form>""",
    )


def write_code_page(account: str, code: str) -> str:
    """Return the page with the code that somebody pastes into his command line."""
    return _write(
        f"Signed in as {account}",
        f"""<p>Paste this code into the command line in which you began to sign in. It is good for five minutes.</p>
<p><code>{escape(code)}</code></p>
<p>Give it to no one: who asks you for it wants to act as you.</p>""",
    )


def write_me(account: str, grants: Mapping[str, str], *, ends_at: datetime | None, csrf: str) -> str:
    """Return the page that says who is signed in."""
    rows = "".join(
        f"<tr><td>{'all tenants' if tenant == '*' else escape(tenant)}</td><td>{escape(role)}</td></tr>"
        for tenant, role in sorted(grants.items())
    )
    roles = (
        f"<table><tr><th>Tenant</th><th>Role</th></tr>{rows}</table>"
        if rows
        else "<p>This account has no role yet.</p>"
    )
    until = "" if ends_at is None else f"<p>The session ends at {ends_at:%Y-%m-%d %H:%M} UTC.</p>"
    return _write(
        f"Signed in as {account}",
        f"""{roles}{until}
<p><a href="/openapi.json">The API</a></p>
<form method="post" action="/logout/form">
<input type="hidden" name="csrf" value="{escape(csrf)}">
<button>Sign out</button>
</form>""",
    )


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith(('.', '!', '?')) else '.'}"


def _write(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{escape(title)} · Mainspring</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{body}
</body>
</html>
"""
