"""Run the command line as ``python -m sightline``."""

from sightline.cli.app import app

app()
