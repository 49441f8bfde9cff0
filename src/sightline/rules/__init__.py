"""Alarm rules: from energy to alarms."""
