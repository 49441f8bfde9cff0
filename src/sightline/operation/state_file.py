"""The SQLite file below the state of a watch: what is read back is what was written.

Nothing in the file is believed. It holds our tables and nothing else (no view, trigger,
index or default of anybody's), every cell has the type of its column, and the sum of
digests of all rows is that of the last transaction. So a file that was damaged, or
edited, is refused with one sentence when it is opened.
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from sightline.errors import FileError, SightlineError
from sightline.files import brief, writing

# Marks a SQLite file as a state of ours, and its version.
_APPLICATION: Final = 0x51_67_68_74
SCHEMA: Final = 4
# States from this version on have all tables; from `SCHEMA` on a digest.
_COMPLETE: Final = 3
_ALARMS: Final = """
CREATE TABLE IF NOT EXISTS alarms (
    id TEXT PRIMARY KEY, is_open INTEGER NOT NULL, last REAL NOT NULL,
    alarm TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS changes (seq INTEGER PRIMARY KEY, line TEXT NOT NULL)
"""
# States that were written before there were pictures of alarms have none.
_MINUTES: Final = """
CREATE TABLE IF NOT EXISTS minutes (
    minute INTEGER PRIMARY KEY, time REAL NOT NULL, pair BLOB NOT NULL)"""
_UNWATCHED: Final = """
CREATE TABLE IF NOT EXISTS unwatched (
    start REAL PRIMARY KEY, end REAL NOT NULL, reason TEXT NOT NULL)"""
_LIVE: Final = """
CREATE TABLE live (
    id INTEGER PRIMARY KEY CHECK (id = 1), arrays BLOB NOT NULL,
    alarm TEXT NOT NULL, stretch TEXT NOT NULL"""
_TABLES: Final = f"""
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE files (
    name TEXT PRIMARY KEY, size INTEGER NOT NULL, changed INTEGER NOT NULL,
    digest TEXT NOT NULL, fate TEXT NOT NULL, first REAL, last REAL,
    rows INTEGER NOT NULL, note TEXT NOT NULL);
CREATE TABLE runs (first REAL PRIMARY KEY, last REAL NOT NULL);
CREATE TABLE hours (
    hour INTEGER PRIMARY KEY, rows INTEGER NOT NULL, sums BLOB NOT NULL);
CREATE TABLE episodes (
    id INTEGER PRIMARY KEY, start REAL NOT NULL, last REAL NOT NULL,
    rows INTEGER NOT NULL, peak REAL NOT NULL, member TEXT NOT NULL,
    tags TEXT NOT NULL);
CREATE TABLE stretches (
    start REAL PRIMARY KEY, last REAL NOT NULL, rows INTEGER NOT NULL);
{_UNWATCHED};{_LIVE}, waiting TEXT NOT NULL);
{_MINUTES};{_ALARMS}"""
# What turns a state of an earlier version into one of this.
_MIGRATION: Final = f"""{_UNWATCHED};
ALTER TABLE live ADD COLUMN waiting TEXT NOT NULL DEFAULT '[]';
{_ALARMS}"""
_KINDS: Final = {"INTEGER": int, "REAL": float, "TEXT": str, "BLOB": bytes}
_DIGEST: Final = "digest"
# Steps of SQLite's machine between two looks, and looks until opening is given up.
_STEPS, _MOST_LOOKS = 1_000_000, 3_000
# What the disk refuses, and what another program holds.
_REFUSED: Final = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    }
)
_REPAIR: Final = (
    "put a copy back, or move it and alarms.jsonl away and run `sightline watch` "
    "again: it reads the exports that are still in the folder, and what people said of "
    "alarms stands in that alarms.jsonl"
)


class StateFile:
    """A SQLite file that is checked when it is opened, and changed by transactions.

    Parameters
    ----------
    path : Path
        The file; it is made if it does not exist.

    Attributes
    ----------
    migrated : bool
        Whether the file lacks tables that earlier versions did not have.

    Raises
    ------
    FileError
        If it is no state, is damaged, or was written by a newer version.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.migrated = path, False
        # The sum of the digests of all rows; None in a state that has none yet.
        self._sum: int | None = 0
        # A damaged name in a message of SQLite cannot be decoded: a ValueError.
        with writing(path), self.intact(ValueError):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None)
            try:
                self._open()
            except BaseException:
                self._db.close()
                raise

    def _open(self) -> None:
        looks = iter(range(_MOST_LOOKS))
        self._db.set_progress_handler(lambda: next(looks, None) is None, _STEPS)
        self._db.execute("PRAGMA trusted_schema = OFF")
        number = self._db.execute("PRAGMA application_id").fetchone()[0]
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        n_objects = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not n_objects and not number:
            with self.transaction():
                for statement in _TABLES.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._db.execute(f"PRAGMA user_version = {SCHEMA}")
        elif number != _APPLICATION:
            raise FileError(
                f"{self.path}: is a database of another program: name another file "
                "with --state."
            )
        elif version > SCHEMA:
            raise FileError(
                f"{self.path}: was written by a newer Sightline: use that version, or "
                "name a new file with --state."
            )
        else:
            self.migrated = version < _COMPLETE
            self._check(version)
        self._db.set_progress_handler(None, 0)

    def migrate(self) -> None:
        """Make a state of an earlier version one of this, within a transaction."""
        for statement in _MIGRATION.split(";"):
            self._db.execute(statement)

    def with_minutes(self) -> None:
        """Make the table of minutes, if an earlier version made the file."""
        self._db.execute(_MINUTES)

    # --- Nothing is believed ----------------------------------------------------------

    def _check(self, version: int) -> None:
        """Refuse a file that does not hold what was written to it."""
        # One moment: another process may write meanwhile.
        self._db.execute("BEGIN")
        try:
            self._check_tables(version)
            found = self._db.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found != "ok":
                raise ValueError(found)
            total = self._total()
            if version == SCHEMA:
                stated = self.read(
                    "SELECT value FROM about WHERE key = ?", (_DIGEST,)
                ).fetchone()
                if stated is None or stated[0] != f"{total:032x}":
                    raise ValueError("its rows are not those of the last transaction")
            self._sum = total if version == SCHEMA else None
        finally:
            self._db.execute("ROLLBACK")

    def _check_tables(self, version: int) -> None:
        """Raise ValueError unless it has our tables, each as we make it."""
        given = self._db.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        known = _known_tables()
        for kind, name, sql in given:
            is_own_index = kind == "index" and sql is None
            if not is_own_index and _squeezed(sql or "") not in known.get(name, ()):
                raise ValueError(f"{kind} {name!r} is not as it was made")
        present = {name for kind, name, _ in given if kind == "table"}
        late = {"minutes"}
        if version < _COMPLETE:
            late |= {"unwatched", "alarms", "changes"}
        for name in known:
            if name not in present | late:
                raise ValueError(f"no such table: {name}")

    def _total(self) -> int:
        """Return the sum of the digests of all rows, each cell checked by its type."""
        total = 0
        for table in _known_tables():
            columns = self._db.execute(f"PRAGMA table_info({table})").fetchall()
            kinds = [
                (_KINDS[kind], bool(is_needed or is_key))
                for _, _, kind, is_needed, _, is_key in columns
            ]
            for row in self._db.execute(f"SELECT * FROM {table}") if columns else ():
                for cell, (kind, is_needed), column in zip(
                    row, kinds, columns, strict=True
                ):
                    if type(cell) is not kind and (is_needed or cell is not None):
                        raise ValueError(f"{table}.{column[1]} holds another type")
                total += _digest(table, row)
        return total % (1 << 128)

    @contextmanager
    def intact(self, *kinds: type[Exception]) -> Iterator[None]:
        """Turn an error of the database raised inside into a `FileError`.

        Parameters
        ----------
        *kinds : type
            Other errors that are turned as well.
        """
        turned: tuple[type[Exception], ...] = (sqlite3.Error, *kinds)
        try:
            yield
        except SightlineError:
            raise
        except turned as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code is not None and code & 0xFF in _REFUSED:
                raise FileError(
                    f"{self.path}: cannot be written ({brief(error)}): check the space "
                    "left, its permissions, and that nothing else holds it. It is as "
                    "it was before, and the next run goes on."
                ) from error
            raise FileError(
                f"{self.path}: is no state of a watch, or was damaged or edited "
                f"({brief(error)}): {_REPAIR}."
            ) from error

    # --- Reading and writing ----------------------------------------------------------

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def read(self, query: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Return what a query finds."""
        return self._db.execute(query, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all that is done inside, or nothing of it."""
        with self.intact():
            self._db.execute("BEGIN IMMEDIATE")
            before = self._sum
            try:
                yield
                if self._sum is None:
                    self._sum = self._total()
                    self._db.execute(f"PRAGMA user_version = {SCHEMA}")
                self._db.execute(
                    "INSERT OR REPLACE INTO about VALUES (?, ?)",
                    (_DIGEST, f"{self._sum % (1 << 128):032x}"),
                )
                self._db.execute("COMMIT")
            except BaseException:
                self._sum = before
                # A full disk may have ended it already.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def put(self, table: str, row: Sequence[object]) -> None:
        """Write a row, in place of that with the same first value."""
        if not self._db.in_transaction:
            with self.transaction():
                self.put(table, row)
            return
        self._forget(table, f"{_key_of(table)} IS ?", row[:1])
        marks = ", ".join("?" * len(row))
        written = self._db.execute(
            f"INSERT OR REPLACE INTO {table} VALUES ({marks})", row
        )
        # As it is read back: a column may turn an integer into a float.
        self._add(table, "rowid = ?", (written.lastrowid,), 1)

    def delete(self, table: str, where: str, values: Sequence[object] = ()) -> None:
        """Remove the rows that a condition holds for, within a transaction."""
        self._forget(table, where, values)
        self._db.execute(f"DELETE FROM {table} WHERE {where}", values)

    def _forget(self, table: str, where: str, values: Sequence[object]) -> None:
        self._add(table, where, values, -1)

    def _add(self, table: str, where: str, values: Sequence[object], sign: int) -> None:
        """Add the digests of some rows to the sum, or take them away."""
        if self._sum is None:
            return
        rows = self._db.execute(f"SELECT * FROM {table} WHERE {where}", values)
        self._sum += sign * sum(_digest(table, row) for row in rows)


def _squeezed(sql: str) -> str:
    """Return a statement without white space."""
    return re.sub(r"\s+", "", sql)


def _digest(table: str, row: Sequence[object]) -> int:
    """Return a number for a row; 0 for that which holds the digest itself."""
    if table == "about" and row[0] == _DIGEST:
        return 0
    known = blake2b(table.encode(), digest_size=16)
    for cell in row:
        kind, text = type(cell).__name__, cell
        if isinstance(cell, str):
            text = cell.encode()
        elif not isinstance(cell, bytes):
            text = repr(cell).encode()
        known.update(f"{kind} {len(text)} ".encode())  # type: ignore[arg-type]
        known.update(text)  # type: ignore[arg-type]
    return int.from_bytes(known.digest(), "big")


@cache
def _known_tables() -> dict[str, frozenset[str]]:
    """Return the statements by which versions of ours make each table."""
    found: dict[str, set[str]] = {}
    earlier = re.sub(r", waiting TEXT NOT NULL\)", ")", _TABLES)
    earlier = earlier.replace(_UNWATCHED, "").replace(_ALARMS, "")
    earlier = earlier.replace(_MINUTES, "")
    for statements in (_TABLES, earlier, f"{earlier};{_MIGRATION}"):
        with closing(sqlite3.connect(":memory:")) as made:
            made.executescript(statements)
            for name, sql in made.execute("SELECT name, sql FROM sqlite_master"):
                if sql is not None:
                    found.setdefault(name, set()).add(_squeezed(sql))
    return {name: frozenset(ways) for name, ways in found.items()}


@cache
def _key_of(table: str) -> str:
    """Return the first column of a table, which is its key."""
    with closing(sqlite3.connect(":memory:")) as made:
        made.executescript(_TABLES)
        columns = made.execute(f"PRAGMA table_info({table})").fetchall()
    return str(columns[0][1])
