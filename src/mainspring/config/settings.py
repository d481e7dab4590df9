"""The settings of a server or worker process."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from mainspring.config.access import Access, read_access, read_proxy
from mainspring.config.channel_settings import read_mail_server
from mainspring.config.dsn import hide_password, read_connect_timeout, read_dsn
from mainspring.config.login_settings import read_provider
from mainspring.config.secret_settings import SecretPlace
from mainspring.config.table import SETTINGS, default
from mainspring.config.vault_settings import check_vault
from mainspring.core.identity_providers import Grants, ProviderRules
from mainspring.core.mail_server import MailServer
from mainspring.core.rates import Rate
from mainspring.core.values import value
from mainspring.errors import InvalidInput

DATABASE_NAME = "mainspring.db"
_MAX_STATEMENTS = 10_000


@value()
class StoreLocation:
    """Where the store is: a folder for SQLite, a DSN for PostgreSQL, this process's memory, or a package's URL.

    Attributes:
        is_shared: several processes may have it at once.
        is_pooled: the DSN leads to a pooler that lends connections for a transaction at a time.
        statement_cache: how many prepared statements each connection keeps; None means what suits the DSN.
        connect_timeout: the limit for opening a connection, in seconds; None means the default.
        listen: the DSN of PostgreSQL itself, for wake-ups, if the first one leads to a pooler.
        ignored: names of the DSNs' parameters that are ignored.
    """

    scheme: str
    target: str
    is_shared: bool = False
    is_pooled: bool = False
    statement_cache: int | None = None
    connect_timeout: float | None = None
    listen: str | None = None
    ignored: tuple[str, ...] = ()

    @classmethod
    def parse(cls, url: str, *, listen: str | None = None, others: Collection[str] = ()) -> StoreLocation:
        """Read `postgresql://…`, `sqlite:///FOLDER`, `memory://`, or a URL of a scheme that a package adds.

        A PostgreSQL DSN may name several hosts. Besides the driver's own parameters, it may have
        `pooler=transaction`, `statement_cache=N` and `connect_timeout=SECONDS`.

        Args:
            listen: a second DSN, for wake-ups past a pooler.
            others: the schemes that packages add. Such a URL is left to its package to read.

        Raises:
            InvalidInput: the scheme is unknown, the folder is missing, or a parameter is wrong.
        """
        scheme, separator, rest = url.partition("://")
        if separator and scheme in {"postgresql", "postgres"}:
            return cls._parse_dsn(url, listen)
        if listen is not None:
            raise InvalidInput("listen_store", "only a store on PostgreSQL has wake-ups between processes")
        if separator and scheme == "sqlite" and rest:
            return cls("sqlite", rest.removeprefix("/") if rest.startswith("//") else rest)
        if separator and scheme == "memory":
            return cls("memory", "")
        if separator and scheme in others:
            return cls(scheme, url)
        known = ", ".join(["postgresql://…", "sqlite:///FOLDER", *(f"{other}://…" for other in others)])
        raise InvalidInput("store", f"{hide_password(url)!r} is not {known} or memory://")

    @classmethod
    def _parse_dsn(cls, url: str, listen: str | None) -> StoreLocation:
        dsn, own, ignored = read_dsn(url, "store")
        pooler, cache, patience = map(own.get, ("pooler", "statement_cache", "connect_timeout"))
        if pooler not in {None, "transaction"}:
            message = f"pooler={pooler!r} is not 'transaction'; a pooler in session mode needs no parameter"
            raise InvalidInput("store", message)
        if cache is not None and not (cache.isascii() and cache.isdigit() and int(cache) <= _MAX_STATEMENTS):
            message = f"statement_cache={cache!r} is not a number from 0 to {_MAX_STATEMENTS}"
            raise InvalidInput("store", message)
        if listen is not None:
            if listen.partition("://")[0] not in {"postgresql", "postgres"}:
                raise InvalidInput("listen_store", f"{hide_password(listen)!r} is not postgresql://…")
            listen, others, also = read_dsn(listen, "listen_store")
            ignored = tuple(sorted({*ignored, *also}))
            if "pooler" in others:
                raise InvalidInput(
                    "listen_store", "leads to a pooler; name PostgreSQL itself, or leave it out to poll"
                )
        return cls(
            "postgresql",
            dsn,
            is_shared=True,
            is_pooled=pooler is not None,
            statement_cache=int(cache) if cache is not None else None,
            connect_timeout=read_connect_timeout(patience, "store") if patience is not None else None,
            listen=listen or None,
            ignored=ignored,
        )

    @property
    def label(self) -> str:
        """The location without its password, for display."""
        return self.target if self.scheme == "sqlite" else hide_password(self.target) or "memory"


@value(kw_only=True)
class Settings:
    """The value of every setting of a process, given or default. Bounds and meanings are in `config.table`.

    Attributes:
        store: the store that the settings `store`, `data` and `listen_store` name together.
        threads: how many sync functions a worker runs at a time; None means as many as slots, up to a bound.
        worker_name: None means HOST-PID.
        shell_limits: pairs of a resource limit's name and its value.
    """

    store: StoreLocation = StoreLocation("sqlite", default("data"))
    statement_timeout: timedelta = default("postgresql.statement_timeout")
    browse_budget: timedelta = default("browse.budget")
    browse_connections: int = default("browse.connections")
    browse_timeout: timedelta = default("browse.timeout")
    why_rate: Rate = default("why.rate")
    host: str = default("host")
    port: int = default("port")
    trusted_network: bool = default("trusted_network")
    tls_cert: str | None = default("tls.cert")
    tls_key: str | None = default("tls.key")
    tls_client_ca: str | None = default("tls.client_ca")
    behind_proxy: str | None = default("behind_proxy")
    allow_hosts: tuple[str, ...] = default("allow_host")
    admin_token_file: str | None = default("auth.admin_token_file")
    auth_session: timedelta = default("auth.session")
    oidc_issuer: str | None = default("auth.oidc.issuer")
    oidc_client_id: str | None = default("auth.oidc.client_id")
    oidc_client_secret: str | None = default("auth.oidc.client_secret")
    oidc_name: str | None = default("auth.oidc.name")
    oidc_scopes: tuple[str, ...] = default("auth.oidc.scopes")
    oidc_groups: Grants = default("auth.oidc.groups")
    oidc_groups_claim: str = default("auth.oidc.groups_claim")
    has_api: bool = default("api.enabled")
    ics_most_bytes: int = default("ics.most_bytes")
    calendars_most_days: int = default("calendars.most_days")
    has_scheduler: bool = default("scheduler.enabled")
    node_period: timedelta = default("scheduler.node_period")
    clock_limit: timedelta = default("scheduler.clock_limit")
    history: timedelta = default("history.keep")
    archive_url: str | None = default("archive.url")
    archive_memory: int = default("archive.memory")
    artifacts_url: str | None = default("artifacts.url")
    artifacts_limit: int = default("artifacts.limit")
    keep_artifacts: timedelta = default("artifacts.keep")
    keep_settled: timedelta = default("dead.keep_settled")
    keep_audit: timedelta = default("audit.keep")
    keep_usage_minutes: timedelta = default("usage.keep_minutes")
    keep_usage_hours: timedelta = default("usage.keep_hours")
    keep_run_logs: timedelta = default("run_logs.keep")
    keep_events: timedelta = default("events.keep")
    keep_sessions: timedelta = default("sessions.keep")
    keep_keys: timedelta = default("idempotency.keep")
    backfill_rate: Rate = default("backfill.rate")
    backfill_max_live: int = default("backfill.max_live")
    backfill_most_fires: int = default("backfill.most_fires")
    catch_up_rate: Rate = default("catch_up.rate")
    catch_up_max_live: int = default("catch_up.max_live")
    slots: int = default("worker.slots")
    queues: tuple[str, ...] = default("worker.queues")
    labels: tuple[str, ...] = default("worker.labels")
    worker_name: str | None = default("worker.name")
    processes: int = default("worker.processes")
    beat_period: timedelta = default("worker.beat_period")
    long_poll: timedelta = default("worker.long_poll")
    prefetch: timedelta = default("worker.prefetch")
    drain: timedelta = default("drain")
    threads: int | None = default("executors.function.threads")
    keep_output: bool = default("executors.function.keep_output")
    log_flush: timedelta = default("run_logs.flush")
    log_limit: int = default("run_logs.limit")
    function_grace: timedelta = default("executors.function.grace")
    process_enabled: bool = default("executors.process.enabled")
    processes_of_functions: int | None = default("executors.process.most")
    allow_shell: bool = default("executors.shell.enabled")
    shell_allow: tuple[str, ...] = default("executors.shell.allow")
    shell_path: str = default("executors.shell.path")
    shell_grace: timedelta = default("executors.shell.grace")
    shell_limits: tuple[tuple[str, int], ...] = default("executors.shell.limits")
    callback_allow: tuple[str, ...] = default("executors.http.allow")
    callback_allow_http: bool = default("executors.http.allow_http")
    callback_connect_timeout: timedelta = default("executors.http.connect_timeout")
    callback_timeout: timedelta = default("executors.http.timeout")
    grpc_enabled: bool = default("executors.grpc.enabled")
    grpc_allow: tuple[str, ...] = default("executors.grpc.allow")
    grpc_allow_plain: bool = default("executors.grpc.allow_plain")
    grpc_connect_timeout: timedelta = default("executors.grpc.connect_timeout")
    grpc_timeout: timedelta = default("executors.grpc.timeout")
    grpc_descriptors: tuple[str, ...] = default("executors.grpc.descriptors")
    grpc_ca: str | None = default("executors.grpc.ca")
    grpc_client_cert: str | None = default("executors.grpc.client_cert")
    grpc_client_key: str | None = default("executors.grpc.client_key")
    container_enabled: bool = default("executors.container.enabled")
    container_program: str = default("executors.container.program")
    container_options: tuple[str, ...] = default("executors.container.options")
    container_run_options: tuple[str, ...] = default("executors.container.run_options")
    container_images: tuple[str, ...] = default("executors.container.images")
    container_network: str = default("executors.container.network")
    container_memory: int = default("executors.container.memory")
    container_cpus: float = default("executors.container.cpus")
    container_grace: timedelta = default("executors.container.grace")
    kubernetes_enabled: bool = default("executors.kubernetes.enabled")
    kubernetes_kubeconfig: str | None = default("executors.kubernetes.kubeconfig")
    kubernetes_context: str | None = default("executors.kubernetes.context")
    kubernetes_namespaces: tuple[str, ...] = default("executors.kubernetes.namespaces")
    kubernetes_images: tuple[str, ...] = default("executors.kubernetes.images")
    kubernetes_service_accounts: tuple[str, ...] = default("executors.kubernetes.service_accounts")
    kubernetes_pull_secrets: tuple[str, ...] = default("executors.kubernetes.pull_secrets")
    kubernetes_as_root: bool = default("executors.kubernetes.as_root")
    kubernetes_memory: int = default("executors.kubernetes.memory")
    kubernetes_cpus: float = default("executors.kubernetes.cpus")
    kubernetes_grace: timedelta = default("executors.kubernetes.grace")
    kubernetes_start_timeout: timedelta = default("executors.kubernetes.start_timeout")
    channel_allow: tuple[str, ...] = default("channels.allow")
    channel_allow_http: bool = default("channels.allow_http")
    channel_timeout: timedelta = default("channels.timeout")
    channel_test_rate: Rate = default("channels.test_rate")
    watchdog_ping_url: str | None = default("watchdog.ping_url")
    public_url: str | None = default("public_url")
    mail_url: str | None = default("mail.url")
    mail_from: str | None = default("mail.from")
    mail_password: str | None = default("mail.password")
    mail_recipients: tuple[str, ...] = default("mail.recipients")
    secrets: tuple[SecretPlace, ...] = default("secrets")
    keys_file: str | None = default("keys_file")
    vault_address: str | None = default("vault.address")
    vault_namespace: str | None = default("vault.namespace")
    vault_ca: str | None = default("vault.ca")
    vault_client_cert: str | None = default("vault.client_cert")
    vault_client_key: str | None = default("vault.client_key")
    vault_token_file: str | None = default("vault.token_file")
    vault_role_id: str | None = default("vault.role_id")
    vault_secret_id_file: str | None = default("vault.secret_id_file")
    vault_kubernetes_role: str | None = default("vault.kubernetes_role")
    vault_kubernetes_token_file: str = default("vault.kubernetes_token_file")
    vault_login_mount: str | None = default("vault.login_mount")
    vault_refresh: timedelta = default("vault.refresh")
    vault_keep: timedelta = default("vault.keep")
    vault_timeout: timedelta = default("vault.timeout")
    metrics_port: int | None = default("metrics.port")
    metrics_host: str = default("metrics.host")
    otlp: str | None = default("telemetry.otlp")
    trace_sample: float = default("telemetry.sample")
    trace_split_after: timedelta = default("telemetry.split_after")
    log_format: str = default("logging.format")
    log_level: str = default("logging.level")

    def __post_init__(self) -> None:
        """Check the values, each by its setting's name.

        Raises:
            InvalidInput: a value is out of range, or contradicts another one.
        """
        _ = self.access
        for setting in SETTINGS.values():
            value = getattr(self, setting.field) if setting.field is not None else None
            if value is not None:
                setting.read(value)
        self._check_split()
        self._check_mail()
        self._check_provider()
        self._check_tls()
        check_vault(self.by_name)

    def by_name(self, name: str) -> Any:
        """Return the value of a setting that has a field of its own."""
        field = SETTINGS[name].field
        return None if field is None else getattr(self, field)

    @property
    def access(self) -> Access:
        """Who may reach the API, and under which names.

        Raises:
            InvalidInput: it would be open to others without the operator's consent, or a name is malformed.
        """
        return read_access(
            self.host,
            self.allow_hosts,
            trusted_network=self.trusted_network,
            is_encrypted=self.tls_cert is not None,
            is_proxied=self.behind_proxy is not None,
        )

    @property
    def mail_server(self) -> MailServer | None:
        """The server through which mail leaves; None if there is none.

        Raises:
            InvalidInput: the settings of mail do not go together.
        """
        return read_mail_server(self.mail_url, self.mail_from, self.mail_password, self.mail_recipients)

    @property
    def identity_provider(self) -> ProviderRules | None:
        """Where people may sign in instead of with a password; None is nowhere.

        Raises:
            InvalidInput: the settings of auth.oidc do not go together.
        """
        return read_provider(
            issuer=self.oidc_issuer,
            client_id=self.oidc_client_id,
            client_secret=self.oidc_client_secret,
            name=self.oidc_name,
            scopes=self.oidc_scopes,
            groups=self.oidc_groups,
            groups_claim=self.oidc_groups_claim,
        )

    def _check_provider(self) -> None:
        provider = self.identity_provider
        name = None if provider is None else provider.client_secret
        if name is not None and name not in {place.name for place in self.secrets}:
            raise InvalidInput("auth.oidc.client_secret", f"there is no secret {name!r} in the table secrets")

    def _check_mail(self) -> None:
        server = self.mail_server
        name = None if server is None else server.password
        if name is not None and name not in {place.name for place in self.secrets}:
            raise InvalidInput("mail.password", f"there is no secret {name!r} in the table secrets")

    def _check_tls(self) -> None:
        if self.tls_cert is None:
            for name, value in (("tls.key", self.tls_key), ("tls.client_ca", self.tls_client_ca)):
                if value is not None:
                    raise InvalidInput(name, "goes with a certificate; give --tls-cert, too")
        if self.behind_proxy is not None:
            read_proxy(self.behind_proxy)

    def _check_split(self) -> None:
        """Refuse a process that would do nothing, or that needs a second process on a store that takes only one."""
        if self.has_api and self.has_scheduler:
            return
        if not self.has_api and not self.has_scheduler:
            message = "together with no_api it leaves nothing to run; give one of the two, or neither"
            raise InvalidInput("scheduler.enabled", message)
        if not self.store.is_shared:
            name = "scheduler.enabled" if self.has_api else "api.enabled"
            kind = {"sqlite": "in SQLite", "memory": "in memory"}.get(
                self.store.scheme, f"of {self.store.scheme}://"
            )
            message = (
                f"a store {kind} can have one process only, which must do everything; "
                "leave it out, or give --store postgresql://…"
            )
            raise InvalidInput(name, message)
