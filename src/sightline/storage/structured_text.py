"""A rule as a function block in IEC 61131-3 structured text, for a controller.

The block takes one row of residuals at each call. All numbers are LREAL and every sum
runs in the order of `sightline._kernels.alarms`, so that its alarms are those of the
rule wherever LREAL is IEEE 754 double precision and LN is exactly rounded alike.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from sightline.errors import StreamError
from sightline.rules.making import MadeRule
from sightline.rules.rule import LinearView, Member, Memory, Rule, View

# A controller is no place for larger tables of weights.
MOST_TAGS: Final = 16
_TINY = "2.2250738585072014E-308"


def structured_text(made: MadeRule) -> str:
    """Return a rule as a function block.

    Parameters
    ----------
    made : MadeRule
        With at most `MOST_TAGS` channels that it looks at.

    Returns
    -------
    str
        Text of one FUNCTION_BLOCK; inputs ``r`` (one row of the channels that it looks
        at, in their order), ``after_break`` and, if it reads one, ``score``; outputs
        ``alarm``, ``trace`` and ``member``.

    Raises
    ------
    StreamError
        If the rule has more channels.
    """
    rule = _of_used(made.rule)
    p = len(rule.channels)
    if p > MOST_TAGS:
        raise StreamError(
            f"The rule {rule.name!r} looks at {p} tags, and structured text is written "
            f"for at most {MOST_TAGS}: use rule.py, or leave tags out with --without."
        )
    lines = [
        *_header(replace(made, rule=rule)),
        f"FUNCTION_BLOCK {_block_name(rule)}",
        *_variables(rule),
    ]
    lines += ["", "IF after_break OR NOT started THEN", *_restart(rule), "END_IF;"]
    for view in rule.views:
        lines += ["", f"(* view {_comment(view.kind)} *)", *_view(view)]
    for m, member in enumerate(rule.members):
        lines += ["", f"(* member {_comment(member.name)} *)"]
        lines += _member(member, m, rule.view_of(member))
    lines += ["", "(* joined: members that are not shelved *)", *_joined(rule)]
    lines += ["", "(* on-delay and off-delay *)", *_latch(rule), "END_FUNCTION_BLOCK"]
    return "\n".join(lines) + "\n"


def _of_used(rule: Rule) -> Rule:
    """Return the same rule on the channels that it looks at alone."""
    used = np.unique(np.concatenate([np.empty(0, int), *(v.order for v in rule.views)]))
    return replace(
        rule,
        channels=tuple(rule.channels[j] for j in used),
        views=tuple(
            replace(v, mean=v.mean[used], order=np.searchsorted(used, v.order))
            for v in rule.views
        ),
    )


def _comment(text: str) -> str:
    """Return text that cannot end a comment."""
    return re.sub(r"[^\x20-\x7e]", "?", text).replace("*)", "* )").replace("(*", "( *")


def _block_name(rule: Rule) -> str:
    plain = re.sub(r"[^A-Za-z0-9]+", "_", rule.name.replace("~", "_mean")).strip("_")
    return f"SightlineRule_{plain or 'rule'}"


def _header(made: MadeRule) -> Iterator[str]:
    rule, origin = made.rule, made.origin
    step = "" if rule.step_s is None else f" Call it every {rule.step_s:g} s."
    yield f"(* Alarm rule '{_comment(rule.name)}' by Sightline.{step}"
    if rule.budget is not None:
        yield f"   Budget {rule.budget}; promised {made.promise.per_day:.2g} a day."
    if origin is not None:
        yield f"   Made on {_comment(origin.stream)}, {origin.stream_sha256[:12]}."
    if rule.channels:
        yield "   r: observed minus expected of these tags, as the detector gives it."
    for j, channel in enumerate(rule.channels):
        unit = "" if channel.unit is None else f" [{_comment(channel.unit)}]"
        yield f"   r[{j}]: {_comment(channel.name)}{unit}"
    yield "*)"


def _number(value: float) -> str:
    """Return a literal that reads back as the same number."""
    text = repr(float(value))
    mantissa, _, power = text.partition("e")
    mantissa += "" if "." in mantissa else ".0"
    return f"{mantissa}E{int(power)}" if power else mantissa


def _array(name: str, values: Iterable[float], kind: str) -> str:
    numbers = list(values)
    texts = [str(int(n)) if kind == "INT" else _number(n) for n in numbers]
    return (
        f"    {name} : ARRAY[0..{len(numbers) - 1}] OF {kind} := [{', '.join(texts)}];"
    )


def _zeros(name: str, size: int, kind: str = "LREAL") -> str:
    return f"    {name} : ARRAY[0..{size - 1}] OF {kind};"


def _variables(rule: Rule) -> list[str]:
    n_members, within = len(rule.members), rule.delays.within
    inputs = ["    after_break : BOOL;"]
    if rule.channels:
        inputs.append(_zeros("r", len(rule.channels)))
    if rule.needs_score:
        inputs.append("    score : LREAL;")
    state, constants = [], []
    for view in rule.views:
        q, tail = view.n_columns, _tail(view.kind)
        state.append(_zeros(f"f_{tail}", q))
        constants += [
            _array(f"mean_{tail}", view.mean, "LREAL"),
            _array(f"order_{tail}", view.order, "INT"),
            _array(f"first_{tail}", view.first, "INT"),
            _array(f"stop_{tail}", view.stop, "INT"),
            _array(f"w_{tail}", view.weights.ravel(), "LREAL"),
        ]
        if view.bounds is not None:
            constants.append(_array(f"bounds_{tail}", view.bounds, "INT"))
    for m, member in enumerate(rule.members):
        q = _n_columns(rule, member)
        state += [_zeros(f"v{m}", q), _zeros(f"u{m}", len(member.levels))]
        if member.memory is not Memory.NONE:
            state += [_zeros(f"s{m}", q), _zeros(f"d{m}", q)]
        constants.append(_array(f"level{m}", member.levels, "LREAL"))
        for name, values in (("centre", member.centre), ("allow", member.allowance)):
            if len(values):
                constants.append(_array(f"{name}{m}", values, "LREAL"))
    state += [
        _zeros("ratio", n_members),
        _zeros("age", n_members, "DINT"),
        _zeros("quiet", n_members, "DINT"),
        _zeros("shelved", n_members, "BOOL"),
        _zeros("recent", within, "BOOL"),
        "    started, above, joint : BOOL;",
        "    since : DINT;",
        "    j, k, g, best, n_set : INT;",
        "    y, total, top, lead : LREAL;",
    ]
    outputs = ["    alarm : BOOL;", "    trace : LREAL;", "    member : INT;"]
    return [
        *("VAR_INPUT", *inputs, "END_VAR"),
        *("VAR_OUTPUT", *outputs, "END_VAR"),
        *("VAR", *state, "END_VAR"),
        *("VAR CONSTANT", *constants, "END_VAR"),
    ]


def _n_columns(rule: Rule, member: Member) -> int:
    view = rule.view_of(member)
    return 1 if view is None else view.n_columns


def _tail(kind: View) -> str:
    return {View.X: "x", View.Z: "z", View.STAGE: "g", View.ALL: "e"}[kind]


def _loop(index: str, size: int, *body: str) -> list[str]:
    inner = [f"    {line}" for line in body]
    return [f"FOR {index} := 0 TO {size - 1} DO", *inner, "END_FOR;"]


def _restart(rule: Rule) -> list[str]:
    lines = ["started := TRUE;", "since := 0;", "alarm := FALSE;"]
    for m, member in enumerate(rule.members):
        if member.memory is not Memory.NONE:
            q = _n_columns(rule, member)
            lines += _loop("k", q, f"s{m}[k] := 0.0;", f"d{m}[k] := 0.0;")
    lines += _loop(
        "k", len(rule.members), "age[k] := 0;", "quiet[k] := 0;", "shelved[k] := FALSE;"
    )
    lines += _loop("k", rule.delays.within, "recent[k] := FALSE;")
    return [f"    {line}" for line in lines]


def _view(view: LinearView) -> list[str]:
    q, t = view.n_columns, _tail(view.kind)
    lines = _loop("k", q, f"f_{t}[k] := 0.0;")
    lines += _loop(
        "j",
        q,
        f"y := r[order_{t}[j]] - mean_{t}[order_{t}[j]];",
        f"FOR k := first_{t}[j] TO stop_{t}[j] - 1 DO",
        f"    f_{t}[k] := f_{t}[k] + y * w_{t}[j * {q} + k];",
        "END_FOR;",
    )
    if view.is_one_sided:
        lines += _loop("k", q, f"f_{t}[k] := MAX(f_{t}[k], 0.0);")
    return lines


def _member(member: Member, m: int, view: LinearView | None) -> list[str]:
    """Return the statements that set ``ratio[m]``."""
    q = 1 if view is None else view.n_columns
    source = "score" if view is None else f"f_{_tail(view.kind)}[k]"
    lines = _loop("k", q, *_remembered(member, m, source, is_score=view is None))
    values = f"v{m}[k]"
    n_units = len(member.levels)
    if view is not None and view.bounds is not None:
        t = _tail(view.kind)
        lines += _loop(
            "g",
            n_units,
            "total := 0.0;",
            f"FOR j := bounds_{t}[g] TO bounds_{t}[g + 1] - 1 DO",
            f"    total := total + v{m}[j] * v{m}[j];",
            "END_FOR;",
            f"u{m}[g] := 0.5 * total;",
        )
    else:
        lines += _loop("k", n_units, f"u{m}[k] := {values};")
    if member.memory in (Memory.LOG_AVERAGE, Memory.QUIET):
        sign = "-" if member.memory is Memory.QUIET else ""
        lines += _loop(
            "k",
            n_units,
            f"y := LN(MAX(u{m}[k], {_TINY}));",
            *_averaged(member, m, "y"),
            f"u{m}[k] := MAX({sign}s{m}[k], 0.0);",
        )
    lines += _loop("k", n_units, f"u{m}[k] := ABS(u{m}[k]) / level{m}[k];")
    return [*lines, *_largest(member, m, n_units)]


def _averaged(member: Member, m: int, value: str) -> list[str]:
    weight = _number(member.weight)
    return [f"s{m}[k] := s{m}[k] + {weight} * (({value} - centre{m}[k]) - s{m}[k]);"]


def _remembered(member: Member, m: int, source: str, *, is_score: bool) -> list[str]:
    """Return the statements that set ``v[k]``, the view after its memory."""
    if member.memory is Memory.AVERAGE:
        value = f"MAX(s{m}[k], 0.0)" if member.is_one_sided else f"s{m}[k]"
        return [*_averaged(member, m, source), f"v{m}[k] := {value};"]
    if member.memory is Memory.CUSUM:
        return [
            f"y := {source} - centre{m}[k];",
            f"s{m}[k] := MAX(0.0, s{m}[k] + y - allow{m}[k]);",
            f"d{m}[k] := MAX(0.0, d{m}[k] - y - allow{m}[k]);",
            f"v{m}[k] := MAX(s{m}[k], d{m}[k]);",
        ]
    if is_score:
        return [f"v{m}[k] := MAX({source} - centre{m}[k], 0.0);"]
    return [f"v{m}[k] := {source};"]


def _largest(member: Member, m: int, n_units: int) -> list[str]:
    """Return the statements that join the units of a member."""
    limit = _number(member.limit)
    if not member.largest:
        return [
            "top := -1.0;",
            *_loop(
                "k",
                n_units,
                f"IF u{m}[k] > top THEN",
                f"    top := u{m}[k];",
                "END_IF;",
            ),
            f"ratio[{m}] := top / {limit};",
        ]
    return [
        "total := 0.0;",
        *_loop(
            "j",
            min(member.largest, n_units),
            "best := 0;",
            *_loop("k", n_units, f"IF u{m}[k] > u{m}[best] THEN best := k; END_IF;"),
            f"total := total + u{m}[best] * u{m}[best];",
            f"u{m}[best] := -1.0;",
        ),
        f"ratio[{m}] := 0.5 * total / {limit};",
    ]


def _joined(rule: Rule) -> list[str]:
    delays = rule.delays
    lines = [
        f"above := ratio[k] > {_number(rule.limit)};",
        "IF above THEN quiet[k] := 0; ELSE quiet[k] := quiet[k] + 1; END_IF;",
        f"IF (age[k] > 0) AND (quiet[k] > {delays.off}) THEN",
        "    age[k] := 0;",
        "ELSIF (age[k] > 0) OR above THEN",
        "    age[k] := age[k] + 1;",
        "END_IF;",
    ]
    if rule.shelves:
        lines += [
            f"IF shelved[k] AND (quiet[k] >= {delays.unit}) THEN",
            "    shelved[k] := FALSE;",
            "    age[k] := 0;",
            f"ELSIF (age[k] > {delays.unit}) AND above THEN",
            "    shelved[k] := TRUE;",
            "END_IF;",
        ]
    lines += [
        "IF above AND NOT shelved[k] THEN joint := TRUE; END_IF;",
        "IF ratio[k] > trace THEN trace := ratio[k]; END_IF;",
        "IF (ratio[k] > lead) AND NOT shelved[k] THEN",
        "    lead := ratio[k];",
        "    member := k;",
        "END_IF;",
    ]
    n = len(rule.members)
    start = ["joint := FALSE;", "trace := -1.0;", "lead := -1.0;", "member := 0;"]
    return [*start, *_loop("k", n, *lines)]


def _latch(rule: Rule) -> Sequence[str]:
    delays = rule.delays
    return [
        f"FOR k := {delays.within - 1} TO 1 BY -1 DO",
        "    recent[k] := recent[k - 1];",
        "END_FOR;",
        "recent[0] := joint;",
        "IF joint THEN since := 0; ELSE since := since + 1; END_IF;",
        "IF alarm THEN",
        f"    alarm := since <= {delays.off};",
        "ELSIF joint THEN",
        "    n_set := 0;",
        *(
            f"    {line}"
            for line in _loop(
                "k", delays.within, "IF recent[k] THEN n_set := n_set + 1; END_IF;"
            )
        ),
        f"    alarm := n_set >= {delays.on};",
        "END_IF;",
    ]
