"""The page at `/login`, which needs no script. All that it shows of others is escaped."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime
from html import escape

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 12vh auto 2rem; max-width: 22rem; padding: 0 1rem; }
h1 { font-size: 1.25rem; }
label { display: block; margin: .75rem 0; }
input { box-sizing: border-box; display: block; font: inherit; padding: .4rem; width: 100%; }
button, .button { display: inline-block; font: inherit; padding: .4rem .9rem; }
.error { border-left: 3px solid #c33; padding-left: .75rem; }
td { padding-right: 1rem; }
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
    wrong = "" if error is None else f'<p class="error" role="alert">{escape(error)}</p>'
    other = (
        ""
        if provider is None
        else f'<p><a class="button" href="/login/oidc">Sign in with {escape(provider)}</a></p>'
    )
    return _write(
        "Sign in",
        f"""{wrong}{other}
<form method="post" action="/login/form">
<label>Account <input name="account" value="{escape(account)}" autocomplete="username" required autofocus></label>
<label>Password or access token
<input name="password" type="password" autocomplete="current-password" required></label>
<button>Sign in</button>
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
    roles = f"<table>{rows}</table>" if rows else "<p>This account has no role yet.</p>"
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
