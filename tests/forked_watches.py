"""Loaded once by the server from which watches are forked: compiled loops are ready."""

from watched_plants import warm_up

warm_up()
