"""Reads the archive: which days it has, a run by its id, and SQL over all of it.

DuckDB reads only the files that it is told of, changes nothing, and is stopped when it takes too long. Files in a
bucket are fetched first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.archive.parquet import columns_of, connect, quote
from mainspring.archive.tasks import FORMAT, MANIFEST, DayManifest, PartFacts
from mainspring.core.archive import FOLDER, ArchiveKind
from mainspring.core.ids import RunId, format_job_id, format_run_id
from mainspring.core.values import value
from mainspring.core.workflows.state import StepStatus, UnreadableFlow
from mainspring.errors import InvalidInput, MissingExtra
from mainspring.objects import Objects
from mainspring.ports.flow_codec import decode_flow_state

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_AT_ONCE = 16
_FILE = re.compile(r"(?:part|attempts)-[0-9]{4,9}\.parquet", re.ASCII)
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_MACROS = (
    # The ids as they are written everywhere else: see `core.ids`.
    (
        "CREATE MACRO id_digits(n, length) AS array_to_string("
        f"list_transform(range(length - 1, -1, -1), lambda i: substr('{_DIGITS}',"
        " ((n >> (5 * i)::UHUGEINT) & 31::UHUGEINT)::INTEGER + 1, 1)), '')"
    ),
    "CREATE MACRO run_id_of(id) AS CASE WHEN id IS NOT NULL THEN 'run_' || id_digits(id::UHUGEINT, 13) END",
    "CREATE MACRO job_id_of(id) AS CASE WHEN id IS NOT NULL THEN 'job_' || id_digits(id::UHUGEINT, 26) END",
)


@value()
class QueryLimits:
    """What a query may take: bytes of memory, seconds, bytes that are fetched, and rows of its answer."""

    memory: int
    seconds: float
    fetched: int
    rows: int


@value()
class QueryAnswer:
    """The rows of an answer; `is_cut` if there are more of them."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    is_cut: bool


class ArchiveReader:
    """Reads an archive.

    Args:
        objects: where its files lie.
        scratch: a folder for what is fetched, and for what does not fit into the memory.

    Raises:
        MissingExtra: the extra `archive` is not installed.
    """

    def __init__(self, objects: Objects, *, scratch: Path) -> None:
        try:
            import duckdb  # noqa: F401  -- told now, not at the first use
        except ImportError:
            raise MissingExtra("archive.url", "archive") from None
        self._objects = objects
        self._scratch = scratch

    def list_days(self, *, since: date | None = None, until: date | None = None) -> list[DayManifest]:
        """Return the days that are whole, in order; `until` is outside.

        Raises:
            ObjectsUnavailable: the archive cannot be reached.
            InvalidInput: a manifest is damaged, or of another form.
        """
        names = [name for name in self._objects.list(FOLDER) if name.endswith(f"/{MANIFEST}")]
        wanted = []
        for name in names:
            day = _day_of(name)
            if day is None or (since is not None and day < since) or (until is not None and day >= until):
                continue
            wanted.append(name)
        with ThreadPoolExecutor(_AT_ONCE) as pool:  # each is a request to a bucket
            return list(pool.map(self._read_manifest, wanted))

    def _read_manifest(self, name: str) -> DayManifest:
        try:
            manifest = msgspec.json.decode(self._objects.read(name), type=DayManifest)
        except msgspec.MsgspecError as error:
            raise InvalidInput("archive.url", f"{name} is damaged: {error}") from None
        if not all(_is_part_of(part.name, name) for part in manifest.parts):
            raise InvalidInput("archive.url", f"{name} is damaged: it names files outside of its folder")
        if manifest.format != FORMAT:
            raise InvalidInput(
                "archive.url", f"{name} is of form {manifest.format}, not {FORMAT}; take a fitting version"
            )
        return manifest

    def query(
        self, sql: str, days: Sequence[DayManifest], *, tenant: str | None, limits: QueryLimits
    ) -> QueryAnswer:
        """Answer one SELECT over the views `runs` and `attempts`.

        Args:
            tenant: the views have only what is this tenant's; None is all.

        Raises:
            InvalidInput: it is not one SELECT, or is wrong; it takes too long or too much memory; or too much would
                have to be fetched.
            ObjectsUnavailable: the archive cannot be reached.
        """
        parts = [part for day in days for part in day.parts]
        with self._open(parts, tenant=tenant, limits=limits) as db:
            return _answer(db, sql, limits)

    def find(
        self, run_id: RunId, days: Sequence[DayManifest], *, limits: QueryLimits
    ) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        """Return a run and its attempts, by the names of their columns; None if the archive has no such run."""
        parts = [part for day in days for part in day.parts if _may_hold(part, run_id)]
        if not parts:
            return None
        files = self._place(parts, limits)
        with connect(memory=limits.memory, scratch=self._scratch / "spill") as db:
            runs = _find(db, ArchiveKind.RUNS, files, f"id = {int(run_id)}")
            if not runs:
                return None
            attempts = _find(db, ArchiveKind.ATTEMPTS, files, f"run_id = {int(run_id)} ORDER BY token")
        return _named(runs[0]), [{**one, "run_id": format_run_id(run_id)} for one in attempts]

    @contextmanager
    def _open(
        self, parts: Sequence[PartFacts], *, tenant: str | None, limits: QueryLimits
    ) -> Iterator[DuckDBPyConnection]:
        files = self._place(parts, limits)
        with connect(memory=limits.memory, scratch=self._scratch / "spill", threads=2) as db:
            for macro in _MACROS:
                db.execute(macro)
            allowed = ", ".join(quote(path) for paths in files.values() for path in paths)
            db.execute(f"SET allowed_paths = [{allowed}]")
            db.execute("SET enable_external_access = false")
            _make_views(db, files, tenant)
            db.execute("SET lock_configuration = true")
            yield db

    def _place(self, parts: Sequence[PartFacts], limits: QueryLimits) -> dict[ArchiveKind, list[Path]]:
        """Return where the files of parts lie on this machine, those of a bucket once they are fetched."""
        distant = sum(part.bytes for part in parts if self._objects.local(part.name) is None)
        if distant > limits.fetched:
            raise InvalidInput(
                "days",
                f"they have {distant / 1e6:,.0f} MB, and {limits.fetched / 1e6:,.0f} MB may be fetched;"
                " narrow them by --since and --until, or raise --fetch",
            )
        files: dict[ArchiveKind, list[Path]] = {kind: [] for kind in ArchiveKind}
        for part in parts:
            path = self._objects.local(part.name)
            if path is None:
                path = self._scratch / part.name
                if not path.exists():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    self._objects.get(part.name, path)
            files[part.kind].append(path)
        return files


def _day_of(name: str) -> date | None:
    text = name.removeprefix(f"{FOLDER}/day=").removesuffix(f"/{MANIFEST}")
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _is_part_of(name: str, manifest: str) -> bool:
    folder, _, file = name.rpartition("/")
    return folder == manifest.rpartition("/")[0] and _FILE.fullmatch(file) is not None


def _may_hold(part: PartFacts, run_id: RunId) -> bool:
    if part.first_id is None or part.last_id is None:
        return False
    return part.first_id <= run_id <= part.last_id


def _make_views(db: DuckDBPyConnection, files: dict[ArchiveKind, list[Path]], tenant: str | None) -> None:
    where = "" if tenant is None else f" WHERE tenant = {quote(tenant)}"
    db.execute(
        "CREATE VIEW runs AS SELECT run_id_of(id) AS run_id, * REPLACE (job_id_of(job_id) AS job_id,"
        f" run_id_of(redrive_of) AS redrive_of) FROM {_source(ArchiveKind.RUNS, files)}{where}"
    )
    # An attempt has no tenant of its own.
    of_tenant = "" if tenant is None else " WHERE run_id IN (SELECT id FROM runs)"
    db.execute(
        "CREATE VIEW attempts AS SELECT run_id_of(run_id) AS run_id, run_id AS run, * EXCLUDE (run_id)"
        f" FROM {_source(ArchiveKind.ATTEMPTS, files)}{of_tenant}"
    )


def _source(kind: ArchiveKind, files: dict[ArchiveKind, list[Path]]) -> str:
    """Return the files of a kind as a table, an empty one if there are none."""
    if not files[kind]:
        columns = ", ".join(f"NULL::{of} AS {name}" for name, of in columns_of(kind))
        return f"(SELECT {columns}, NULL::DATE AS day WHERE false)"
    paths = ", ".join(quote(path) for path in files[kind])
    # Columns that came later are NULL in older files.
    return (
        f"read_parquet([{paths}], union_by_name=true, hive_partitioning=true, hive_types={{'day': DATE}},"
        " hive_types_autocast=false)"
    )


def _answer(db: DuckDBPyConnection, sql: str, limits: QueryLimits) -> QueryAnswer:
    import duckdb

    timer = Timer(limits.seconds, db.interrupt)
    timer.daemon = True
    try:
        statements = db.extract_statements(sql)
        # Not EXPLAIN either: EXPLAIN ANALYZE does what it explains, such as a COPY onto a file of the archive.
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise InvalidInput("sql", "must be one SELECT; the archive is only read")
        timer.start()
        found = db.execute(statements[0])
        rows = found.fetchmany(limits.rows + 1)
        columns = [column[0] for column in found.description or ()]
    except duckdb.InterruptException:
        raise InvalidInput(
            "sql", f"took longer than {limits.seconds:g} s and was stopped; narrow it, or raise --timeout"
        ) from None
    except duckdb.OutOfMemoryException as error:
        raise InvalidInput("sql", f"needs more memory: {_first_line(error)}; raise --memory") from None
    except duckdb.Error as error:
        raise InvalidInput("sql", _first_line(error)) from None
    finally:
        timer.cancel()
    return QueryAnswer(columns, rows[: limits.rows], len(rows) > limits.rows)


def _find(
    db: DuckDBPyConnection, kind: ArchiveKind, files: dict[ArchiveKind, list[Path]], where: str
) -> list[dict[str, Any]]:
    found = db.execute(f"SELECT * FROM {_source(kind, files)} WHERE {where}")
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _named(run: dict[str, Any]) -> dict[str, Any]:
    """Return a run with its ids as they are written everywhere else, and with how its steps have ended."""
    other, flow = run["redrive_of"], run.get("flow_id")
    return {
        "run_id": format_run_id(run["id"]),
        **run,
        "job_id": format_job_id(run["job_id"]),
        "redrive_of": None if other is None else format_run_id(other),
        "flow_id": None if flow is None else format_run_id(flow),
        "steps": _read_steps(run.get("flow_state")),
    }


def _read_steps(kept: str | None) -> list[str] | None:
    """Return how the steps of a workflow's run have ended, in the order of its definition; None if that is not known.

    It is not, of other runs, and of one whose state was encrypted in the store.
    """
    if kept is None:
        return None
    try:
        state = decode_flow_state(bytes.fromhex(kept))
    except UnreadableFlow:
        return None
    return [StepStatus(step).name for step in state.steps]


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
