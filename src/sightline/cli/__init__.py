"""The `sightline` command: one module for each group of commands.

`app` joins them. Importing this folder loads typer and rich, but no room of the
evaluation: a command imports what it needs when it runs, so that ``sightline --help``
answers at once.
"""
