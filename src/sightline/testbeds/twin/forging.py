"""What a forged sensor reads, for every kind of forging.

The function is plain arithmetic on numbers, so that a compiled plant can compile it.
"""

# Places in `ActionKind`, as `ActionKind.code` gives them.
SET, SETPOINT, CONSTANT, RAMP, REPLAY, FREEZE, BIAS, GAIN, DISTURBANCE = range(9)


def forged_value(
    kind: int,
    reading: float,
    value: float,
    rate: float,
    elapsed_s: float,
    before: float,
    replayed: float,
    lowest: float,
) -> float:
    """Return what is read instead of a reading.

    Parameters
    ----------
    kind : int
        `ActionKind.code`.
    reading : float
        What the sensor measures.
    value, rate : float
        Those of the action. A ramp without a limit has the value nan.
    elapsed_s : float
        Seconds since the attack began, with those of this step.
    before : float
        What was read before the attack.
    replayed : float
        What was recorded at the time that is replayed.
    lowest : float
        The lowest that the instrument can show.

    Examples
    --------
    >>> forged_value(RAMP, 5.0, 12.0, 0.5, 10.0, 4.0, 0.0, 0.0)
    9.0
    >>> forged_value(RAMP, 5.0, 8.0, 0.5, 10.0, 4.0, 0.0, 0.0)
    8.0
    """
    if kind == CONSTANT:
        return value
    if kind == REPLAY:
        return replayed
    if kind == FREEZE:
        return before
    forged = reading
    if kind == RAMP:
        forged = before + rate * elapsed_s
        # Without a limit the value is nan, and every comparison is False.
        if (rate > 0 and forged > value) or (rate < 0 and forged < value):
            forged = value
    elif kind == BIAS:
        forged = reading + value + rate * elapsed_s
    elif kind == GAIN:
        forged = reading * value
    return max(forged, lowest)
