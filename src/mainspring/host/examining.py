"""Gathers what the doctor judges: the store, the settings of this host, the server that answers here."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.core.doctor import FileFinding, InstallationFacts, SettingFacts, keys_lost
from mainspring.errors import InvalidInput, MainspringError
from mainspring.host.archiving import reach_archive
from mainspring.host.artifact_place import reach_artifacts
from mainspring.host.vaults import count_in_vault, find_vault_problems

if TYPE_CHECKING:
    from mainspring.config.settings import StoreLocation
    from mainspring.config.sources import Choices

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_SECRETS = (
    "auth.admin_token_file",
    "tls.key",
    "executors.kubernetes.kubeconfig",
    "keys_file",
    "vault.client_key",
    "vault.token_file",
    "vault.secret_id_file",
)
_PATIENCE = 5.0
_EXECUTORS = ("process", "grpc", "container", "kubernetes")
"""Executors that only some hosts turn on."""
_EXTRAS = {"grpc": "grpc", "kubernetes": "kubernetes_asyncio"}
"""By the executor, which is the extra's name, the library that it cannot do without."""


async def gather(location: StoreLocation, choices: Choices, *, address: str) -> InstallationFacts:
    """Look at all of it.

    Args:
        address: of the server that commands use.
    """
    import mainspring
    from mainspring.clock import host_time, monotonic
    from mainspring.runtime import last_migration, make_examiner

    examiner = make_examiner(location)
    store = await examiner.look(monotonic=monotonic, now=host_time)
    settings = read_settings(choices, os.environ)
    artifacts = choices["artifacts.url"].value
    missing, other = keys_lost(settings, store.cluster)
    lost = [*missing, *other]
    return InstallationFacts(
        product=mainspring.__version__,
        schema=last_migration(location),
        store=store,
        settings=replace(
            settings,
            artifacts=artifacts,
            artifacts_error=None if artifacts is None else await reach_artifacts(artifacts),
            vault_secrets=count_in_vault(choices),
            vault_errors=[str(problem) for problem in await find_vault_problems(choices, os.environ)],
        ),
        address=address,
        api_error=await _call(address),
        key_uses=await examiner.count_key_uses(lost) if lost else {},
    )


def read_settings(choices: Choices, environment: Mapping[str, str]) -> SettingFacts:
    """Return what the settings of this host say, and what is wrong with the files that they name."""
    from mainspring.config.processes import check
    from mainspring.config.setting import PROCESSES
    from mainspring.config.sources import find_misspelt
    from mainspring.plugins import load_plugins
    from mainspring.zone_data import tzdata_version

    problems = [*choices.problems, *find_misspelt(environment)]
    for process in PROCESSES:
        problems += check(process, choices, stores=load_plugins())
    cert, archive = choices["tls.cert"].value, choices["archive.url"].value
    archive_error, archive_owner = (None, None) if archive is None else reach_archive(archive)
    keys = read_key_checks(choices["keys_file"].value)
    is_encrypted = cert is not None or choices["behind_proxy"].value is not None
    return SettingFacts(
        problems=list(dict.fromkeys(" ".join(str(problem).split()) for problem in problems)),
        is_open=bool(choices["trusted_network"].value) and not is_encrypted,
        is_encrypted=is_encrypted,
        certificate_ends_in=None if cert is None else _read_end(cert),
        allows_shell=bool(choices["executors.shell.enabled"].value),
        has_shell_list=bool(choices["executors.shell.allow"].value),
        executors=[name for name in _EXECUTORS if choices[f"executors.{name}.enabled"].value],
        executor_problems=_find_executor_problems(choices),
        secrets=_find_secrets(choices, environment),
        keys=None if keys is None else list(keys),
        key_checks=keys or {},
        tzdata=tzdata_version(),
        history_keep=choices["history.keep"].value.total_seconds(),
        archive=archive,
        archive_error=archive_error,
        archive_owner=archive_owner,
    )


def _find_executor_problems(choices: Choices) -> list[tuple[str, str]]:
    """Return what executors that are turned on lack here, and what to do."""
    problems = []
    for name, library in _EXTRAS.items():
        if choices[f"executors.{name}.enabled"].value and find_spec(library) is None:
            what = f"executors.{name}.enabled is set, and the extra {name!r} is not installed here"
            problems.append((what, f"pip install 'mainspring[{name}]'"))
    program, path = choices["executors.container.program"].value, choices["executors.shell.path"].value
    if choices["executors.container.enabled"].value and shutil.which(program, path=path) is None:
        what = (
            f"executors.container.enabled is set, and there is no program {program!r} in executors.shell.path"
        )
        problems.append((what, "install podman or docker, or name its path: executors.container.program"))
    return problems


def read_key_checks(path: str | None) -> dict[str, bytes] | None:
    """Return what tells each key of a file from another one of its id, by id, the one that writes first.

    None if there is no file that can be read, which is told elsewhere.
    """
    from mainspring.encryption.keys import check_of, read_keys

    if path is None:
        return None
    try:
        return {key_id: check_of(key) for key_id, key in read_keys(path).by_id.items()}
    except InvalidInput:
        return None


def _find_secrets(choices: Choices, environment: Mapping[str, str]) -> list[FileFinding]:
    from mainspring.sdk.credentials import TOKEN_FILE_VARIABLE

    named = {name: choices[name].value for name in _SECRETS}
    for place in choices["secrets"].value:
        scheme, _, path = place.source.partition(":")
        if scheme == "file":
            named[f"secrets.{place.name}"] = path
    named[TOKEN_FILE_VARIABLE] = environment.get(TOKEN_FILE_VARIABLE)
    return [look_at_secret(setting, path) for setting, path in named.items() if path]


def look_at_secret(setting: str, path: str) -> FileFinding:
    """Return whether others than its user may read a file."""
    try:
        # Without waiting for the other end if it is a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return FileFinding(setting=setting, path=path, is_private=None)
    try:
        mode = os.fstat(descriptor).st_mode
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(mode):
        return FileFinding(setting=setting, path=path, is_private=None)
    return FileFinding(setting=setting, path=path, is_private=not mode & _OTHERS)


def _read_end(cert: str) -> float | None:
    """Return in how many seconds the certificate of a file ends; None if it cannot be read, which is told elsewhere."""
    from mainspring.clock import host_time
    from mainspring.host.certificate_ends import read_end

    try:
        end = read_end(Path(cert).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return (end - host_time()).total_seconds()


async def _call(address: str) -> str | None:
    """Return why the server does not answer; None if it does."""
    import asyncio

    from mainspring.sdk.client import AsyncClient

    try:
        async with asyncio.timeout(_PATIENCE), AsyncClient(address) as client:
            await client.get_health()
    except TimeoutError:
        return f"no answer within {_PATIENCE:.0f} s"
    except MainspringError as error:
        return " ".join(str(error).split())
    return None
