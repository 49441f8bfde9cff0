"""Streams and evaluations on disk. Only this package knows their file formats."""

from pathlib import Path

from sightline.data.stream import ResidualStream
from sightline.errors import FileError
from sightline.files import reading
from sightline.storage.csv_tables import read_tables
from sightline.storage.ipal import read_ipal, state_file
from sightline.storage.metadata import is_npz, stream_name
from sightline.storage.npz import read_npz, write_npz
from sightline.storage.parquet import read_parquet_folder, write_parquet_folder
from sightline.storage.results import (
    Result,
    check_out,
    folder_name,
    gather_results,
    read_evaluation,
    read_results,
    read_traces,
    write_json,
    write_results,
)

__all__ = [
    "Result",
    "check_out",
    "folder_name",
    "gather_results",
    "read_evaluation",
    "read_results",
    "read_stream",
    "read_tables",
    "read_traces",
    "stream_name",
    "write_json",
    "write_results",
    "write_stream",
]


def read_stream(path: str | Path, *, detector: str | None = None) -> ResidualStream:
    """Read a residual stream: an ``.npz`` file, a Parquet folder or an IPAL folder.

    The rows of a Parquet folder stay on disk and are read in chunks when needed.

    Parameters
    ----------
    path : path
        The file or folder; its name, without ``.npz``, becomes the stream's name.
    detector : str, optional
        Which detector's scores to take from an IPAL folder that holds several.

    Returns
    -------
    ResidualStream
        The checked stream.

    Raises
    ------
    FileError
        If the file or folder cannot be read.
    StreamError
        If its contents do not make a valid stream.
    """
    path = Path(path)
    with reading(path):
        if path.is_dir():
            return _read_folder(path, detector)
        if not path.exists():
            raise FileError(f"{path}: there is no such file or folder.")
        if not is_npz(path):
            raise FileError(
                f"{path}: is not an .npz file or a stream folder; for two tables pass "
                "--train and --test."
            )
        if path.stat().st_size == 0:
            raise FileError(f"{path}: is empty.")
        return read_npz(path)


def _read_folder(path: Path, detector: str | None) -> ResidualStream:
    """Read a stream from a folder, whose files say in which format it is."""
    if (path / "train").is_dir() or (path / "test").is_dir():
        return read_parquet_folder(path)
    if state_file(path, "train") or state_file(path, "test"):
        return read_ipal(path, detector=detector)
    raise FileError(
        f"{path}: is a folder without train/*.parquet (a Parquet stream) and "
        "without train.state (an IPAL stream)."
    )


def write_stream(stream: ResidualStream, path: str | Path) -> None:
    """Write a stream to a file or folder that `read_stream` reads back.

    It is written whole or not at all; an earlier stream of that name is replaced.

    Parameters
    ----------
    stream : ResidualStream
        The stream.
    path : path
        An ``.npz`` file if it ends in ``.npz``, else a folder of Parquet files.

    Raises
    ------
    FileError
        If it cannot be written, or the folder holds other files.
    StreamError
        If a channel has a name with another meaning in a Parquet folder, as ``label``.

    Examples
    --------
    >>> import tempfile
    >>> from sightline import ResidualStream, read_stream, write_stream
    >>> stream = ResidualStream([[0.1], [-0.2], [0.0]], [[0.1], [5.0]], [0, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_stream(stream, f"{folder}/mine.npz")
    ...     read_stream(f"{folder}/mine.npz")
    ResidualStream 'mine': 1 channel, 3 train rows, 2 test rows, 1 attack
    """
    path = Path(path)
    if path.suffix.lower() == ".npz":
        write_npz(stream, path)
    else:
        write_parquet_folder(stream, path)
