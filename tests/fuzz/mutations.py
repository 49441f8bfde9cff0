"""Ways to damage a file: its bytes, or its contents within a container that is valid.

Every function takes a generator of random numbers, so that a seed gives the same damage
again.
"""

import gzip
import io
import json
import math
import os
import sqlite3
import string
import struct
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import fastexcel
import numpy as np
import polars as pl
import xlsxwriter

HOSTILE = (
    "=1+1|cmd",
    "@SUM(A1)",
    "\x1b[2J\x1b]0;x\x07",
    "\u202eevil\u2066",
    "a\nb\r\nc",
    "\x00",
    "../../x",
    "/etc/passwd",
    "<script>alert(1)</script>",
    "[red]x[/red]",
    "{{ 7 * 7 }}",
    "\ud800",
    "9" * 5000,
    "x" * 3000,
    "",
    " ",
    "nan",
    "LIT101",
    "\N{SNOWMAN}",
    "-",
    "2026-13-45 99:99",
    "%Q %Z %%",
)
NUMBERS = (
    *(0, 1, -1, 2, 7, 10**6, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400),
    *(0.5, -0.5, 1e-320, 1e-200, 1e-79, 1e76, 1e155, 1e300, -1e308, 1e16),
    *(math.nan, math.inf, -math.inf),
)
JUNK = (
    *(
        b"\x89PNG\r\n\x1a\n",
        b"%PDF-1.7\n",
        b"PK\x03\x04",
        b"PAR1",
        b"\x93NUMPY\x01\x00",
    ),
    *(b"\x1f\x8b", b"NaN", b"-", b'"', b",", b"\n", b"\r", b"\x00", b"1e999"),
    *(b"[" * 3000, b"{" * 3000, b"9" * 5000, b"\\ud800", b"\xff\xfe", b"\xef\xbb\xbf"),
)
Rng = np.random.Generator


def one_of(rng: Rng, items: Any) -> Any:
    items = list(items)
    return items[int(rng.integers(len(items)))]


# ---- bytes ---------------------------------------------------------------------------


def damaged_bytes(rng: Rng, data: bytes) -> bytes:
    """Return bytes with one to three flips, cuts, insertions or removals."""
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(data) + 1))
        what = int(rng.integers(6))
        if what == 0 and at < len(data):
            data = (
                data[:at]
                + bytes([data[at] ^ int(rng.integers(1, 256))])
                + data[at + 1 :]
            )
        elif what == 1:
            data = data[:at]
        elif what == 2:
            data = data[:at] + one_of(rng, JUNK) + data[at:]
        elif what == 3:
            data = data[:at] + data[at + int(rng.integers(1, 200)) :]
        elif what == 4:
            junk = one_of(rng, JUNK)
            data = data[:at] + junk + data[at + len(junk) :]
        else:
            data = data[:at] + data[at // 2 : at] + data[at:]
    return data


def damage_bytes(rng: Rng, path: Path) -> None:
    path.write_bytes(damaged_bytes(rng, path.read_bytes()))


def replace_by_another_kind(rng: Rng, path: Path) -> None:
    """Put a pipe, a folder, a link that leads nowhere, or nothing in its place."""
    path.unlink()
    what = int(rng.integers(6))
    if what == 0:
        os.mkfifo(path)
    elif what == 1:
        path.mkdir()
    elif what == 2:
        path.symlink_to(path.with_name("nowhere"))
    elif what == 3:
        path.symlink_to(path.name)
    elif what == 4:
        path.write_bytes(b"")
    else:
        path.symlink_to("/dev/zero")


# ---- plain values --------------------------------------------------------------------


def any_value(rng: Rng, depth: int = 2) -> Any:
    """Return a value that JSON has."""
    what = int(rng.integers(8 if depth else 5))
    if what == 0:
        return None
    if what == 1:
        return bool(rng.integers(2))
    if what in (2, 3):
        return one_of(rng, NUMBERS)
    if what == 4:
        return one_of(rng, HOSTILE)
    inner = [any_value(rng, depth - 1) for _ in range(int(rng.integers(4)))]
    if what == 5:
        return {str(one_of(rng, HOSTILE)): value for value in inner}
    return inner


def changed(rng: Rng, value: Any) -> Any:
    """Return a value of the same container with something else somewhere within it."""
    if isinstance(value, dict) and value and rng.random() < 0.93:
        key = one_of(rng, value)
        what = rng.random()
        if what < 0.06:
            return {k: v for k, v in value.items() if k != key}
        if what < 0.1:
            return value | {str(one_of(rng, HOSTILE)): value[key]}
        return value | {key: changed(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.93:
        k = int(rng.integers(len(value)))
        what = rng.random()
        if what < 0.08:
            return value[:k] + value[k + 1 :]
        if what < 0.16:
            return [*value, value[k]]
        if what < 0.2:
            return value[::-1]
        return [*value[:k], changed(rng, value[k]), *value[k + 1 :]]
    if isinstance(value, bool):
        return one_of(rng, [not value, any_value(rng)])
    if isinstance(value, int | float) and rng.random() < 0.7:
        near = (value + 1, value - 1, -value, value * 1000, value / 7, *NUMBERS)
        return one_of(rng, near)
    if isinstance(value, str) and rng.random() < 0.7:
        return one_of(rng, HOSTILE)
    return any_value(rng)


def change_json(rng: Rng, path: Path) -> None:
    values = json.loads(path.read_text("utf-8"))
    for _ in range(int(rng.integers(1, 4))):
        values = changed(rng, values)
    path.write_text(json.dumps(values), "utf-8")


def change_states(rng: Rng, path: Path) -> None:
    """Change lines of JSON, as in an IPAL file, or make it a bomb of equal lines."""
    lines = [line for line in path.read_text("utf-8").splitlines() if line]
    k = int(rng.integers(len(lines)))
    if rng.random() < 0.03:
        path.write_text(lines[k].replace("]", ",0.0" * 10**6 + "]", 1), "utf-8")
        return
    for _ in range(int(rng.integers(1, 4))):
        k = int(rng.integers(len(lines)))
        lines[k] = json.dumps(changed(rng, json.loads(lines[k])))
    path.write_text("\n".join(lines) + "\n", "utf-8")


def change_toml(rng: Rng, path: Path) -> None:
    values = tomllib.loads(path.read_text("utf-8"))
    for _ in range(int(rng.integers(1, 3))):
        values = changed(rng, values)
    if not isinstance(values, dict):
        values = {"x": values}
    path.write_bytes(_toml(values).encode("utf-8", "surrogatepass"))


def _toml(values: dict[str, Any]) -> str:
    return "".join(
        f"{_toml_text(str(k))} = {_toml_value(v)}\n" for k, v in values.items()
    )


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(
            f"{_toml_text(str(k))} = {_toml_value(v)}" for k, v in value.items()
        )
        return "{" + inner + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(value) if not math.isfinite(value) else repr(value)
    if isinstance(value, int):
        return str(value)
    return _toml_text("" if value is None else str(value))


def _toml_text(text: str) -> str:
    plain = set(string.ascii_letters + string.digits + " .,:;/_-+=@%<>|()[]{}*")
    return (
        '"'
        + "".join(c if c in plain else f"\\U{min(ord(c), 0x10FFFF):08x}" for c in text)
        + '"'
    )


# ---- tables --------------------------------------------------------------------------


def change_csv(rng: Rng, path: Path) -> None:
    """Change cells, names of columns, or the number of cells of a line."""
    lines = path.read_bytes().decode("utf-8", "replace").splitlines() or [""]
    separator = max(",;\t", key=lines[0].count)
    for _ in range(int(rng.integers(1, 5))):
        k = 0 if rng.random() < 0.3 else int(rng.integers(len(lines)))
        cells = lines[k].split(separator)
        j = int(rng.integers(len(cells)))
        what = int(rng.integers(7))
        if what <= 2:
            cells[j] = str(one_of(rng, (*HOSTILE, *NUMBERS)))
        elif what == 3:
            cells[j] = cells[int(rng.integers(len(cells)))]
        elif what == 4:
            del cells[j]
        elif what == 5:
            cells.insert(j, cells[j])
        else:
            cells[j] = f'"{cells[j]}'
        lines[k] = separator.join(cells)
        if rng.random() < 0.1:
            lines.insert(k, lines[int(rng.integers(len(lines)))])
    ends = one_of(rng, ("\n", "\r\n", "\r", "\n"))
    encoding = one_of(rng, ("utf-8", "utf-8", "utf-16", "cp1252"))
    data = (ends.join(lines) + ends).encode(encoding, "replace")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def change_inp(rng: Rng, path: Path) -> None:
    """Change numbers, words, lines or headings of sections of an EPANET file."""
    lines = path.read_bytes().decode("utf-8", "replace").splitlines()
    for _ in range(int(rng.integers(1, 4))):
        k = int(rng.integers(len(lines)))
        words = lines[k].split() or [""]
        j = int(rng.integers(len(words)))
        what = int(rng.integers(8))
        numeric = [i for i, word in enumerate(words) if word[:1].isdigit()]
        if numeric and rng.random() < 0.6:
            near = ("0", "-1", "0.3", "2", "17", "500", "1e5", *NUMBERS)
            words[one_of(rng, numeric)] = str(one_of(rng, near))
        elif what <= 2:
            words[j] = str(one_of(rng, (*HOSTILE, *NUMBERS)))
        elif what <= 4:
            words[j] = one_of(rng, " ".join(lines).split())
        elif what == 5:
            del words[j]
        elif what == 6:
            lines.insert(k, one_of(rng, lines))
        else:
            words.insert(j, words[j])
        lines[k] = " ".join(words)
    text = "\n".join(lines) + "\n"
    path.write_bytes(text.encode(one_of(rng, ("utf-8", "utf-8", "cp1252")), "replace"))


def change_xlsx(rng: Rng, path: Path) -> None:
    """Write the first sheet again with other cells; a workbook that is valid."""
    sheet = fastexcel.read_excel(path).load_sheet(0, header_row=None, dtypes="string")
    rows = [list(row) for row in sheet.to_polars().rows()]
    for _ in range(int(rng.integers(1, 5))):
        row = one_of(rng, rows[:1] if rng.random() < 0.3 else rows)
        row[int(rng.integers(len(row)))] = any_value(rng, 0)
    # A cell has at most 32,767 characters, and no infinite number.
    with xlsxwriter.Workbook(path, {"nan_inf_to_errors": True}) as book:
        page = book.add_worksheet()
        for k, row in enumerate(rows):
            for j, cell in enumerate(row):
                if isinstance(cell, int) and abs(cell) > 10**300:
                    cell = str(cell)
                if isinstance(cell, str):
                    cell = cell.encode("utf-8", "replace").decode()
                page.write(k, j, cell)
        if rng.random() < 0.1:
            page.write(int(rng.integers(1 << 20)), int(rng.integers(1 << 14)), "far")


def change_parquet(rng: Rng, path: Path) -> None:
    """Write the table again with a column of another type, name or content."""
    frame = pl.read_parquet(path)
    name = one_of(rng, frame.columns)
    what = int(rng.integers(7))
    n = frame.height
    if what == 0:
        frame = frame.drop(name)
    elif what == 1:
        frame = frame.rename({name: f"{one_of(rng, HOSTILE)!r}"})
    elif what == 2:
        frame = frame.with_columns(
            pl.lit(one_of(rng, HOSTILE).encode("utf-8", "replace").decode()).alias(name)
        )
    elif what == 3:
        values = [float(v) if abs(v) < 1e308 else math.inf for v in NUMBERS]
        picks = rng.integers(len(values), size=n)
        frame = frame.with_columns(pl.Series(name, [values[k] for k in picks]))
    elif what == 4:
        frame = frame.with_columns(pl.Series(name, [None] * n, dtype=pl.Float64))
    elif what == 5:
        frame = frame.with_columns(pl.Series(name, [[1.0, 2.0]] * n))
    else:
        frame = frame.head(int(rng.integers(n)))
    frame.write_parquet(path)


STRANGE_SCHEMAS = (
    "create view endless as with recursive n(i) as "
    "(select 1 union all select i + 1 from n) select max(i) from n",
    "create trigger t after insert on files begin delete from runs; end",
    "create table more (x default (randomblob(1000000000)))",
)


def change_sqlite(rng: Rng, path: Path) -> None:
    """Change cells of tables, or drop a table, of a database that stays valid.

    Half of them are of the version before digests, so that what is changed is read.
    """
    base = sqlite3.connect(path)
    if rng.random() < 0.5:
        base.execute("delete from about where key = 'digest'")
        base.execute("pragma user_version = 3")
    if rng.random() < 0.1:
        base.execute(one_of(rng, STRANGE_SCHEMAS))
    tables = [
        n for (n,) in base.execute("select name from sqlite_master where type='table'")
    ]
    for _ in range(int(rng.integers(1, 4))):
        table = one_of(rng, tables)
        columns = [row[1] for row in base.execute(f'pragma table_info("{table}")')]
        if not columns:
            continue
        column, value = one_of(rng, columns), any_value(rng, 0)
        if isinstance(value, int) and abs(value) >= 2**63:
            value = str(value)
        if isinstance(value, str):
            value = value.encode("utf-8", "replace").decode()
        what = rng.random()
        try:
            if what < 0.1:
                base.execute(f'drop table "{table}"')
                tables.remove(table)
                break
            if what < 0.2:
                base.execute(f'delete from "{table}"')
            elif what < 0.3:
                base.execute(f'update "{table}" set "{column}" = ?', (b"\x00\xff",))
            else:
                base.execute(f'update "{table}" set "{column}" = ?', (value,))
        except sqlite3.Error:
            continue
    base.commit()
    base.close()


# ---- arrays --------------------------------------------------------------------------


def change_npz(rng: Rng, path: Path) -> None:
    """Write the archive again with an array of another type, shape or content."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    if rng.random() < 0.12:
        _write_lying(rng, path, arrays)
        return
    for _ in range(int(rng.integers(1, 3))):
        name = one_of(rng, arrays)
        arrays[name] = _changed_array(rng, arrays[name], name)
        if rng.random() < 0.1:
            del arrays[name]
    with io.BytesIO() as buffer:
        np.savez(buffer, allow_pickle=False, **arrays)
        path.write_bytes(buffer.getvalue())


def _changed_array(rng: Rng, array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype.kind == "U" and array.ndim == 0 and name.endswith("json"):
        values = json.loads(array.item())
        return np.array(json.dumps(changed(rng, values)).replace("\\u0000", ""))
    what = int(rng.integers(9))
    if what == 0:
        return array.reshape(-1)[: int(rng.integers(array.size + 1))]
    if what == 1:
        return np.concatenate([array, array]) if array.ndim else array[None]
    if what == 2:
        return array[..., None]
    if what == 3:
        return (
            array.astype(one_of(rng, ("f4", "f8", "i1", "i8", "?")))
            if array.dtype.kind in "iufb"
            else array[:0]
        )
    if what == 4:
        return np.array(one_of(rng, HOSTILE).replace("\x00", ""))
    if what == 5:
        return np.zeros((0, *array.shape[1:]), array.dtype)
    values = array.copy()
    if not values.size or values.dtype.kind not in "iuf":
        return values.reshape(-1)[::-1] if values.ndim == 1 else np.array([1.5])
    with np.errstate(all="ignore"):
        for _ in range(int(rng.integers(1, 5))):
            number = one_of(rng, NUMBERS)
            limit = 1e308 if values.dtype.kind == "f" else np.iinfo(values.dtype).max
            is_number = isinstance(number, float) and math.isnan(number)
            number = 0 if is_number and values.dtype.kind != "f" else number
            if not is_number:
                number = max(
                    min(number, limit), -limit if values.dtype.kind != "u" else 0
                )
            values.flat[int(rng.integers(values.size))] = number
    return values


def _write_lying(rng: Rng, path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write an archive in which one header announces another shape, or a huge one."""
    liar = one_of(rng, arrays)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            shape = array.shape
            data = np.ascontiguousarray(array).tobytes()
            if name == liar:
                shape = one_of(rng, ((10**12,), (2**31, 4), (-1, 3), (0,), (5, 10**9)))
                if rng.random() < 0.2:
                    # It keeps its word, in few bytes.
                    shape, data = (1 << 26,), b"\0" * ((1 << 26) * array.dtype.itemsize)
            facts = {"descr": array.dtype.str, "fortran_order": False, "shape": shape}
            head = f"{facts}\n"
            text = head.encode()
            archive.writestr(
                f"{name}.npy",
                b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data,
            )


BY_SUFFIX = {
    ".inp": change_inp,
    ".json": change_json,
    ".jsonl": change_states,
    ".xlsx": change_xlsx,
    ".npz": change_npz,
    ".csv": change_csv,
    ".gz": change_csv,
    ".parquet": change_parquet,
    ".toml": change_toml,
    ".state": change_states,
    ".sqlite": change_sqlite,
}
