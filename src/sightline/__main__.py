"""Run the command line as ``python -m sightline``."""

from sightline.cli import app

app()
