"""Compiled templates, kept where Python keeps the bytecode of modules."""

import sys
from contextlib import suppress
from importlib.metadata import version
from importlib.util import cache_from_source
from pathlib import Path
from pickle import UnpicklingError
from types import CodeType

from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

from sightline.errors import FileError
from sightline.files import staged_file

# Options of the environment on which compiled templates depend.
OPTIONS = ("autoescape", "trim_blocks", "lstrip_blocks", "optimized")


class CompiledTemplates(BytecodeCache):
    """Keeps compiled templates in ``__pycache__`` beside them.

    To compile the templates of a page takes a tenth of its time. As for modules,
    nothing is kept where the folder cannot be written, or with
    ``PYTHONDONTWRITEBYTECODE``.

    Parameters
    ----------
    folder : Path
        The folder of the templates. One is compiled again if its text changes, or one
        of `OPTIONS`, or the version of Python or of jinja2.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """Return the file that keeps a template."""
        return cache_from_source(str(self._folder / name))

    def get_bucket(
        self, environment: Environment, name: str, filename: str | None, source: str
    ) -> Bucket:
        """Return a compiled template, if it is that of this text and these options."""
        options = [getattr(environment, option) for option in OPTIONS]
        text = f"{source}{options}{version('jinja2')}"
        return super().get_bucket(environment, name, filename, text)

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read a compiled template, if there is one that is not damaged."""
        try:
            with Path(bucket.key).open("rb") as file:
                bucket.load_bytecode(file)
        except (OSError, ValueError, EOFError, UnpicklingError, AttributeError):
            bucket.reset()
        if not isinstance(bucket.code, CodeType):
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a compiled template, if that is possible."""
        if sys.dont_write_bytecode:
            return
        path = Path(bucket.key)
        with suppress(OSError, FileError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with staged_file(path) as partial:
                partial.write_bytes(bucket.bytecode_to_string())
