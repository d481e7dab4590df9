"""Settings of the API: where it listens, who is let in, and what it takes."""

from __future__ import annotations

from mainspring.config.kinds import OneLine, Several
from mainspring.config.setting import SERVER, UP, Setting
from mainspring.core.kinds import Flag, Whole

DEFAULT_PORT = 8620
_HOSTS = (UP, SERVER)
_MIB = 1024 * 1024

API_SETTINGS = (
    Setting(
        name="host",
        kind=OneLine(),
        metavar="ADDRESS",
        default="127.0.0.1",
        field="host",
        flag="--host",
        used_by=_HOSTS,
        words="Address to bind the API to. Any but loopback needs accounts, and TLS or a proxy that has it; or else"
        " --trusted-network.",
    ),
    Setting(
        name="port",
        kind=Whole(0, 65535),
        default=DEFAULT_PORT,
        field="port",
        flag="--port",
        used_by=_HOSTS,
        words="Port of the API; 0 is any free one.",
    ),
    Setting(
        name="trusted_network",
        kind=Flag(),
        default=False,
        field="trusted_network",
        flag="--trusted-network",
        used_by=_HOSTS,
        words="The network is closed to strangers, and as long as there are no accounts, everyone who can reach the API"
        " may define and run jobs.",
    ),
    Setting(
        name="tls.cert",
        kind=OneLine(),
        metavar="FILE",
        default=None,
        default_words="plain HTTP",
        field="tls_cert",
        flag="--tls-cert",
        used_by=_HOSTS,
        words="The server's certificate with its chain, as PEM. Within a minute after the file has changed, new"
        " connections get the new one.",
    ),
    Setting(
        name="tls.key",
        kind=OneLine(),
        metavar="FILE",
        default=None,
        default_words="the file of tls.cert",
        field="tls_key",
        flag="--tls-key",
        used_by=_HOSTS,
        words="The key of the certificate, as PEM, without a password.",
    ),
    Setting(
        name="tls.client_ca",
        kind=OneLine(),
        metavar="FILE",
        default=None,
        default_words="clients need no certificate",
        field="tls_client_ca",
        flag="--tls-client-ca",
        used_by=_HOSTS,
        words="Certificates as PEM of which one must have signed that of a client. Who a client is, its token says.",
    ),
    Setting(
        name="behind_proxy",
        kind=OneLine(),
        metavar="ADDRESS",
        default=None,
        default_words="no proxy",
        field="behind_proxy",
        flag="--behind-proxy",
        used_by=_HOSTS,
        words="The address from which a proxy calls that stands in front and has TLS. What it says of the addresses of"
        " its callers is believed.",
    ),
    Setting(
        name="auth.admin_token_file",
        kind=OneLine(),
        metavar="FILE",
        default=None,
        default_words="none",
        field="admin_token_file",
        used_by=_HOSTS,
        words="A file with an access token that may do everything as long as there are no accounts; no other caller may"
        " do anything then. Give all servers of a store the same.",
    ),
    Setting(
        name="allow_host",
        kind=Several(),
        default=(),
        field="allow_hosts",
        flag="--allow-host",
        used_by=_HOSTS,
        words="Further names or addresses under which the API answers. Repeatable.",
    ),
    Setting(
        name="api.enabled",
        kind=Flag(),
        default=True,
        field="has_api",
        flag="--no-api",
        used_by=(SERVER,),
        words="Serve the API. Without it a server only schedules and takes no port; needs a shared store.",
    ),
    Setting(
        name="ics.most_bytes",
        kind=Whole(1024, 16 * _MIB),
        default=_MIB,
        field="ics_most_bytes",
        used_by=_HOSTS,
        words="Most bytes of an ICS file that is imported as a calendar.",
    ),
    Setting(
        name="calendars.most_days",
        kind=Whole(1, 100_000),
        default=10_000,
        field="calendars_most_days",
        used_by=_HOSTS,
        words="Most dates that the events of an imported ICS file may have.",
    ),
)
