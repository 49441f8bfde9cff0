"""Detectors and testbeds side by side, from results alone."""
