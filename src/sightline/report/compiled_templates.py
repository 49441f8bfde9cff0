"""Compiled templates, kept where Python keeps the bytecode of modules."""

import os
import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

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
        of `OPTIONS`, or the version of Python or of jinja2's bytecode.
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
        return super().get_bucket(environment, name, filename, f"{source}{options}")

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read a compiled template, if there is one."""
        with suppress(OSError), Path(bucket.key).open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a compiled template, if that is possible."""
        if sys.dont_write_bytecode:
            return
        path = Path(bucket.key)
        partial = path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            partial.write_bytes(bucket.bytecode_to_string())
            partial.replace(path)
