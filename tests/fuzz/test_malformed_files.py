"""Whatever a file holds, reading and evaluating it works or gives one sentence.

The number of examples is small by default; SIGHTLINE_FUZZ=50 makes it fifty times as
large.
"""

import gzip
import io
import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import hypothesis.extra.numpy as hnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from sightline import (
    Attack,
    Evaluation,
    FileError,
    ResidualStream,
    SightlineError,
    evaluate,
    read_evaluation,
    read_stream,
    read_tables,
    write_results,
    write_stream,
)
from sightline.cli.app import app
from sightline.storage import read_traces

# What numpy says of a time stamp that ends in Z; it reads it well.
FACTOR = int(os.environ.get("SIGHTLINE_FUZZ", "1"))
N_TRAIN, N_TEST = 30, 24


def fuzz(max_examples: int) -> settings:
    return settings(
        max_examples=max_examples * FACTOR,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def works_or_tells(
    read: Callable[[], ResidualStream], *, intervals: bool = False
) -> None:
    try:
        evaluate(read(), intervals=intervals).to_dict()
    except SightlineError as error:
        assert_one_sentence(str(error))


def assert_one_sentence(message: str) -> None:
    assert message
    assert "\n" not in message


def a_stream() -> ResidualStream:
    rng = np.random.default_rng(3)
    labels = np.zeros(N_TEST, int)
    labels[8:12] = 1
    return ResidualStream(
        rng.normal(size=(N_TRAIN, 2)),
        rng.normal(size=(N_TEST, 2)),
        labels,
        calibration=rng.normal(size=(5, 2)),
        alarms=labels,
        score=rng.normal(size=N_TEST),
        channels=["a", "b"],
        train_time=np.arange(N_TRAIN) * 1.0,
        test_time=np.arange(N_TEST) * 1.0,
        segments=[Attack(id="x", start=8, stop=12, targets=("a",), note="n")],
        telemetry_train=rng.normal(size=(N_TRAIN, 1)),
        telemetry_test=rng.normal(size=(N_TEST, 1)),
        telemetry_channels=["t"],
        detector="D",
        meta={"seed": 1},
    )


# ---- bytes ---------------------------------------------------------------------

Damage = Callable[[bytes], bytes]
JUNK = [
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    b"%PDF-1.7\n",
    b"PK\x03\x04",
    b"PAR1",
    b"\x93NUMPY\x01\x00",
    b"\x1f\x8b",
    b"NaN",
    b"Infinity",
    b"-",
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\x00",
    b"1e999",
    b"[" * 2000,
    b"9" * 5000,
    b"\\ud800",
    b"\xff\xfe",
]


def _flip(position: float, value: int) -> Damage:
    def damage(data: bytes) -> bytes:
        changed = bytearray(data)
        if changed:
            changed[int(position * len(changed))] ^= value
        return bytes(changed)

    return damage


def _cut(position: float) -> Damage:
    return lambda data: data[: int(position * len(data))]


def _insert(position: float, what: bytes) -> Damage:
    def damage(data: bytes) -> bytes:
        at = int(position * len(data))
        return data[:at] + what + data[at:]

    return damage


def _remove(position: float, length: int) -> Damage:
    def damage(data: bytes) -> bytes:
        at = int(position * len(data))
        return data[:at] + data[at + length :]

    return damage


def _overwrite(position: float, what: bytes) -> Damage:
    def damage(data: bytes) -> bytes:
        at = int(position * len(data))
        return data[:at] + what + data[at + len(what) :]

    return damage


POSITIONS = st.one_of(
    st.floats(0, 1, exclude_max=True),
    # Headers and footers are where a format is most easily confused.
    st.floats(0, 0.05),
    st.floats(0.95, 1, exclude_max=True),
)
PIECES = st.one_of(st.sampled_from(JUNK), st.binary(min_size=1, max_size=12))
DAMAGES = st.lists(
    st.one_of(
        st.builds(_flip, POSITIONS, st.integers(1, 255)),
        st.builds(_cut, POSITIONS),
        st.builds(_insert, POSITIONS, PIECES),
        st.builds(_remove, POSITIONS, st.integers(1, 40)),
        st.builds(_overwrite, POSITIONS, PIECES),
    ),
    min_size=1,
    max_size=4,
)


def damaged(data: bytes, damages: list[Damage]) -> bytes:
    for damage in damages:
        data = damage(data)
    return data


def stored_npz(compressed: bool) -> bytes:
    stream, buffer = a_stream(), io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(
        buffer,
        train=stream.train.values,
        test=stream.test.values,
        labels=stream.labels,
        channels=np.array(stream.channels),
        test_time=stream.test_time,
        segments_json=json.dumps([{"id": "x", "start": 8, "stop": 12}]),
        meta_json=json.dumps({"detector": "D", "step_s": 1}),
    )
    return buffer.getvalue()


def stored_csv(split: str) -> bytes:
    stream, time = a_stream(), "2020-01-01T00:00:"
    rows = stream.train.values if split == "train" else stream.test.values
    lines = ["a,b,y,t"]
    for k, (a, b) in enumerate(rows):
        label = stream.labels[k] if split == "test" else 0
        lines.append(f"{a:.4f},{b:.4f},{label},{time}{k:02d}")
    return ("\n".join(lines) + "\n").encode()


def stored_states(split: str) -> bytes:
    stream = a_stream()
    rows = stream.train.values if split == "train" else stream.test.values
    lines = []
    for k, row in enumerate(rows):
        attacked = split == "test" and bool(stream.labels[k])
        state = {
            "timestamp": 1600000000 + k,
            "malicious": "x" if attacked else False,
            "scores": {"GeCo": row.tolist(), "Any": 0},
            "alerts": {"GeCo": attacked},
        }
        lines.append(json.dumps(state))
    return ("\n".join(lines) + "\n").encode()


def stored_parquet(split: str) -> bytes:
    stream, buffer = a_stream(), io.BytesIO()
    rows = stream.train.values if split == "train" else stream.test.values
    columns = {"a": rows[:, 0], "b": rows[:, 1], "time": np.arange(len(rows)) * 1.0}
    if split == "test":
        columns["label"] = stream.labels
    pq.write_table(pa.table(columns), buffer, row_group_size=10)
    return buffer.getvalue()


NPZ = {compressed: stored_npz(compressed) for compressed in (False, True)}
CSV = {split: stored_csv(split) for split in ("train", "test")}
STATES = {split: stored_states(split) for split in ("train", "test")}
PARQUET = {split: stored_parquet(split) for split in ("train", "test")}
SPLITS = st.sampled_from(["train", "test"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def test_the_undamaged_files_are_read(folder):
    for compressed in (False, True):
        stream = read_stream(put(folder / "good.npz", NPZ[compressed]))
        evaluate(stream, intervals=False)
    for split in ("train", "test"):
        put(folder / f"good_{split}.csv", CSV[split])
        put(folder / "good_ipal" / f"{split}.state", STATES[split])
        put(folder / "good_parquet" / "x", b"").unlink()
        put(folder / "good_parquet" / split / "part-0.parquet", PARQUET[split])
    tables = read_tables(
        folder / "good_train.csv", folder / "good_test.csv", label="y", time="t"
    )
    streams = [
        tables,
        *(read_stream(folder / f"good_{k}") for k in ("ipal", "parquet")),
    ]
    for stream in streams:
        assert evaluate(stream, intervals=False).stream.n_attack == 4


@fuzz(25)
@given(st.one_of(st.binary(max_size=300), st.builds(bytes.__add__, PIECES, PIECES)))
def test_random_bytes(folder, data):
    path = put(folder / "random.npz", data)
    works_or_tells(lambda: read_stream(path))
    for suffix in ("csv", "parquet"):
        path = put(folder / f"random.{suffix}", data)
        works_or_tells(lambda path=path: read_tables(path, path))
    for split in ("train", "test"):
        put(folder / "random_states" / f"{split}.state", data)
        put(folder / "random_gz" / f"{split}.state.gz", data)
    works_or_tells(lambda: read_stream(folder / "random_states"))
    works_or_tells(lambda: read_stream(folder / "random_gz"))


@fuzz(80)
@given(st.booleans(), DAMAGES)
def test_damaged_npz(folder, compressed, damages):
    path = put(folder / "damaged.npz", damaged(NPZ[compressed], damages))
    works_or_tells(lambda: read_stream(path))


@fuzz(50)
@given(SPLITS, DAMAGES)
def test_damaged_csv(folder, split, damages):
    files = CSV | {split: damaged(CSV[split], damages)}
    train, test = (put(folder / f"{k}.csv", files[k]) for k in ("train", "test"))
    works_or_tells(lambda: read_tables(train, test, label="y", time="t"))
    works_or_tells(lambda: read_tables(train, test))


@fuzz(50)
@given(SPLITS, DAMAGES)
def test_damaged_parquet_folder(folder, split, damages):
    files = PARQUET | {split: damaged(PARQUET[split], damages)}
    stream = folder / "parquet"
    stream.mkdir(exist_ok=True)
    for k in ("train", "test"):
        put(stream / k / "part-0.parquet", files[k])
    works_or_tells(lambda: read_stream(stream))


@fuzz(30)
@given(SPLITS, DAMAGES)
def test_damaged_parquet_beside_csv(folder, split, damages):
    broken = put(folder / "broken.parquet", damaged(PARQUET[split], damages))
    whole = put(folder / "whole.csv", CSV["test"].replace(b"y,t", b"label,time"))
    for tables in ((broken, whole), (whole, broken)):
        works_or_tells(lambda t=tables: read_tables(*t, label="label", time="time"))


@fuzz(40)
@given(SPLITS, st.booleans(), st.booleans(), DAMAGES)
def test_damaged_ipal_folder(folder, split, zipped, before, damages):
    for k in ("train", "test"):
        data = STATES[k]
        if k == split and before:
            data = damaged(data, damages)
        data = gzip.compress(data) if zipped else data
        if k == split and not before:
            data = damaged(data, damages)
        name = f"{k}.state.gz" if zipped else f"{k}.state"
        put(folder / f"ipal{zipped}" / name, data)
    works_or_tells(lambda: read_stream(folder / f"ipal{zipped}"))


# ---- JSON ----------------------------------------------------------------------

JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(0, N_TEST),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from(["\ud800", 10**400, -1, "a", "b"]),
    ),
    lambda inside: st.one_of(
        st.lists(inside, max_size=4),
        st.dictionaries(
            st.one_of(
                st.text(max_size=5),
                st.sampled_from(
                    "id start stop targets name note detector step_s space channels "
                    "segments train_breaks test_breaks seed stream schema rank probe "
                    "guard notices drift quality timestamp malicious scores".split()
                ),
            ),
            inside,
            max_size=4,
        ),
    ),
    max_leaves=12,
)
SEGMENTS = st.lists(
    st.fixed_dictionaries(
        {"id": JSON, "start": st.integers(-2, N_TEST + 2), "stop": st.integers(0, 30)},
        optional={"targets": JSON, "name": JSON, "note": JSON},
    ),
    max_size=4,
)
META = st.fixed_dictionaries(
    {},
    optional={
        "detector": JSON,
        "step_s": st.one_of(JSON, st.floats(1e-3, 1e6)),
        "segments": st.one_of(JSON, SEGMENTS),
        "channels": st.one_of(JSON, st.permutations(["a", "b"])),
        "train_breaks": st.one_of(JSON, st.lists(st.integers(-1, N_TRAIN))),
        "test_breaks": st.one_of(JSON, st.lists(st.integers(-1, N_TEST))),
        "anything": JSON,
    },
)


def valid_arrays() -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(NPZ[False])) as archive:
        return {name: archive[name] for name in archive.files}


ARRAYS = valid_arrays()


@fuzz(35)
@given(st.one_of(JSON, META), st.one_of(JSON, SEGMENTS))
def test_random_json_fields_of_npz(folder, meta, segments):
    path = folder / "json.npz"
    texts = {"meta_json": json.dumps(meta), "segments_json": json.dumps(segments)}
    np.savez(path, **(ARRAYS | {k: np.array(v) for k, v in texts.items()}))
    works_or_tells(lambda: read_stream(path))


@fuzz(35)
@given(st.one_of(JSON, META), st.one_of(st.just([]), DAMAGES))
def test_random_meta_json_of_parquet_folder(folder, meta, damages):
    stream = folder / "with_meta"
    stream.mkdir(exist_ok=True)
    for split in ("train", "test"):
        put(stream / split / "part-0.parquet", PARQUET[split])
    put(stream / "meta.json", damaged(json.dumps(meta).encode(), damages))
    works_or_tells(lambda: read_stream(stream))


@fuzz(30)
@given(st.lists(st.tuples(st.integers(0, N_TEST - 1), JSON, JSON, JSON), max_size=3))
def test_random_json_in_ipal_states(folder, changes):
    lines = [json.loads(line) for line in STATES["test"].splitlines()]
    for row, mark, score, time in changes:
        lines[row] |= {"malicious": mark, "timestamp": time}
        lines[row]["scores"]["GeCo"] = score
    put(folder / "states" / "train.state", STATES["train"])
    text = "\n".join(json.dumps(line) for line in lines)
    put(folder / "states" / "test.state", text.encode())
    works_or_tells(lambda: read_stream(folder / "states"))


# ---- arrays --------------------------------------------------------------------

DTYPES = st.one_of(
    hnp.scalar_dtypes(),
    hnp.unicode_string_dtypes(max_len=4),
    hnp.byte_string_dtypes(max_len=4),
    hnp.array_dtypes(max_size=2),
    st.sampled_from([np.dtype(np.longdouble), np.dtype("<U0"), np.dtype("V3")]),
)
SHAPES = st.one_of(
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    st.sampled_from(
        [(N_TRAIN, 2), (N_TEST, 2), (N_TEST,), (N_TRAIN,), (N_TEST, 1), (2,), ()]
    ),
)


def random_array(dtype: np.dtype, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return an array of random bytes, or of small numbers where that is possible."""
    rng = np.random.default_rng(seed)
    if seed % 2 and dtype.kind in "iufb":
        return rng.integers(0, 3, size=shape).astype(dtype)
    n_bytes = dtype.itemsize * int(np.prod(shape))
    return np.frombuffer(rng.bytes(n_bytes), dtype).reshape(shape)


NAMES = st.sampled_from(
    "train test labels calibration alarms score channels train_time test_time "
    "train_breaks test_breaks segments_json telemetry_train telemetry_test "
    "telemetry_channels meta_json unknown".split()
)


@fuzz(80)
@given(
    st.dictionaries(
        NAMES, st.tuples(DTYPES, SHAPES, st.integers(0, 999)), min_size=1, max_size=3
    )
)
def test_random_arrays_under_known_names(folder, drawn):
    arrays = dict(ARRAYS)
    for name, (dtype, shape, seed) in drawn.items():
        if dtype.itemsize == 0:
            arrays[name] = np.zeros(shape, dtype)
        else:
            arrays[name] = random_array(dtype, shape, seed)
    path = folder / "arrays.npz"
    with warnings.catch_warnings(action="ignore"):  # field names that are not ASCII
        np.savez(path, allow_pickle=True, **arrays)
    works_or_tells(lambda: read_stream(path))


EXTREMES = st.sampled_from(
    [0.0, 1.0, -1.0, 1e-310, 1e-160, 1e-30, 1e30, 1e76, 1e155, 1e300, np.inf, np.nan]
)


@fuzz(35)
@given(
    st.sampled_from(["train", "test", "calibration", "score", "test_time"]),
    st.lists(st.tuples(st.integers(0, 47), EXTREMES), min_size=1, max_size=30),
    st.sampled_from([np.float32, np.float64]),
)
def test_extreme_values(folder, name, changes, dtype):
    arrays = ARRAYS | {"calibration": ARRAYS["train"], "score": ARRAYS["test_time"]}
    values = arrays[name].copy()
    for position, value in changes:
        values.flat[position % values.size] = value
    with np.errstate(over="ignore"):
        arrays[name] = values.astype(dtype)
    path = folder / "extreme.npz"
    np.savez(path, **arrays)
    works_or_tells(lambda: read_stream(path), intervals=len(changes) % 3 == 0)


# ---- results -------------------------------------------------------------------


@pytest.fixture(scope="module")
def evaluated() -> Evaluation:
    return evaluate(a_stream())


@fuzz(35)
@given(st.one_of(JSON, st.dictionaries(NAMES, JSON)), DAMAGES)
def test_damaged_evaluations_are_refused_or_summarised(
    folder, evaluated, changes, damages
):
    values = evaluated.to_dict()
    texts = [damaged(json.dumps(values, indent=1).encode(), damages)]
    if isinstance(changes, dict):
        texts.append(json.dumps(values | changes).encode())
        texts.append(json.dumps({"schema": 1, "stream": changes} | changes).encode())
    out = folder / "results"
    out.mkdir(exist_ok=True)
    for text in texts:
        put(out / "earlier" / "evaluation.json", text)
        try:
            read_evaluation(out / "earlier")
        except FileError as error:
            assert_one_sentence(str(error))
            with pytest.raises(FileError):
                write_results([evaluated], out, overwrite=True)
        else:
            write_results([evaluated], out, overwrite=True)


@fuzz(25)
@given(DAMAGES)
def test_damaged_traces_are_refused_or_read(folder, damages):
    path = put(folder / "traces.npz", damaged(NPZ[True], damages))
    try:
        read_traces(path)
    except FileError as error:
        assert_one_sentence(str(error))


# ---- the command line ----------------------------------------------------------


def run(arguments: list[str], out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    words = ["evaluate", *arguments, "--no-intervals", "--out", str(out)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code in (0, 1), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    assert out.exists() == (result.exit_code == 0)
    if result.exit_code:
        assert result.stderr.startswith("error: ")
        assert_one_sentence(result.stderr.rstrip("\n"))


@fuzz(20)
@given(
    st.sampled_from(["npz", "csv", "parquet", "ipal"]),
    SPLITS,
    st.one_of(st.just([]), DAMAGES),
)
def test_the_command_exits_with_0_or_1(folder, kind, split, damages):
    place = folder / f"cli_{kind}"
    (place / "stream").mkdir(parents=True, exist_ok=True)
    arguments = [str(place / "stream")]
    if kind == "npz":
        arguments = [str(put(place / "s.npz", damaged(NPZ[True], damages)))]
    elif kind == "csv":
        files = CSV | {split: damaged(CSV[split], damages)}
        arguments = ["--label", "y", "--time", "t"]
        for k, data in files.items():
            arguments += [f"--{k}", str(put(place / f"{k}.csv", data))]
    elif kind == "parquet":
        files = PARQUET | {split: damaged(PARQUET[split], damages)}
        for k, data in files.items():
            put(place / "stream" / k / "part-0.parquet", data)
    else:
        files = STATES | {split: damaged(STATES[split], damages)}
        for k, data in files.items():
            put(place / "stream" / f"{k}.state", data)
    run(arguments, place / "out")


@fuzz(12)
@given(META, SEGMENTS)
def test_the_command_survives_any_names(folder, meta, segments):
    texts = {"meta_json": json.dumps(meta), "segments_json": json.dumps(segments)}
    path = folder / "[red]\udcff:smile:[b.npz"
    np.savez(path, **(ARRAYS | {k: np.array(v) for k, v in texts.items()}))
    run([str(path)], folder / "out")


@fuzz(12)
@given(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4))
def test_any_text_survives_a_round_trip(folder, channel, detector, note):
    stream = a_stream().replace(
        channels=["first", f"_{channel}_"],
        detector=detector,
        segments=[Attack(id="x", start=8, stop=12, note=note)],
        meta={detector: note},
    )
    for place in (folder / "text.npz", folder / "text"):
        write_stream(stream, place)
        again = read_stream(place)
        assert again.channels == stream.channels
        assert again.detector == detector
        assert again.segments == stream.segments


@pytest.mark.parametrize("size", [1e60, 1e100, 1e140, 1e200, 1e300])
@pytest.mark.parametrize("part", ["test", "telemetry_test", "telemetry_train"])
@pytest.mark.parametrize("row", [0, 9, 20])
def test_one_cell_of_absurd_size(part, size, row):
    # Telemetry and test may hold anything finite, by day or under attack.
    rng = np.random.default_rng(4)
    tables = {
        "train": rng.normal(size=(N_TRAIN, 2)),
        "test": rng.normal(size=(60, 2)),
        "telemetry_train": rng.normal(size=(N_TRAIN, 3)),
        "telemetry_test": rng.normal(size=(60, 3)),
    }
    tables[part][row, 1] = size
    labels = np.zeros(60, int)
    labels[8:12] = 1
    works_or_tells(lambda: ResidualStream(labels=labels, **tables))
