"""The page: data, words and scripts in one stand-alone file."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import jinja2

from sightline.evaluation.result import plain
from sightline.judgement.verdicts import all_infos
from sightline.report.attacks import attack_details, attack_rows
from sightline.report.curves import energy_figure, roc_figure, windows_figure
from sightline.report.entries import Entry
from sightline.report.false_alarms import false_alarms
from sightline.report.formatting import on_testbed
from sightline.report.overview import glance, headline, paper_table
from sightline.report.provenance import making
from sightline.report.side_by_side import agreement, matrix, transfer
from sightline.report.stability import drift_figure, quantile_figure, spread_figure
from sightline.report.time_axis import clock_kinds

STYLES = ("page.css", "tables.css", "print.css")
SCRIPTS = (
    "packing.js",
    "theme.js",
    "energy.js",
    "curves.js",
    "stability.js",
    "attack_picture.js",
    "attack_table.js",
    "false_alarms.js",
    "page.js",
)


def page_data(entries: Sequence[Entry]) -> dict[str, Any]:
    """Return everything the charts of a page are drawn from, as plain values."""
    kinds = clock_kinds(entries)
    data: dict[str, Any] = plain(
        {
            "verdicts": {info.word: info.page_fields() for info in all_infos()},
            "entries": [
                energy_figure(entry, kinds[entry.testbed])
                | {
                    "roc": roc_figure(entry),
                    "windows": windows_figure(entry),
                    "spread": spread_figure(entry),
                    "quantiles": quantile_figure(entry),
                    "drift": drift_figure(entry),
                    "details": attack_details(entry),
                    "false_alarms": false_alarms(entry),
                }
                for entry in entries
            ],
        }
    )
    return data


def page_words(entries: Sequence[Entry], *, redact: bool) -> dict[str, Any]:
    """Return everything that the page says in tables and sentences."""
    testbeds = list(dict.fromkeys(entry.testbed for entry in entries))
    by_testbed = {t: [e for e in entries if e.testbed == t] for t in testbeds}
    rows = attack_rows(entries)
    return {
        "testbeds": testbeds,
        "entries": [
            {"key": e.key, "label": e.label, "testbed": e.testbed} for e in entries
        ],
        "headlines": {t: headline(group) for t, group in by_testbed.items()},
        "glance": glance(entries),
        "paper": paper_table(entries),
        "attacks": rows,
        "stages": sorted({stage for row in rows for stage in row["stages"]}),
        "verdicts": [info.page_fields() for info in all_infos()],
        "verdicts_there": [
            info.word
            for info in all_infos()
            if any(r["verdict"] == info.word for r in rows)
        ],
        "matrices": {t: matrix(group) for t, group in by_testbed.items()},
        "agreements": {t: agreement(group) for t, group in by_testbed.items()},
        "transfer": transfer(entries),
        "making": making(entries, redact=redact),
        "false_alarms": [
            {
                "key": e.key,
                "label": e.label,
                "testbed": e.testbed,
                "rules": false_alarms(e),
            }
            for e in entries
        ],
    }


def render(
    entries: Sequence[Entry], *, redact: bool = False, title: str | None = None
) -> str:
    """Return the page as HTML."""
    from plotly.offline import get_plotlyjs

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["on"] = on_testbed
    words = page_words(entries, redact=redact)
    return environment.get_template("page.html").render(
        title=title or _title(entries),
        redact=redact,
        styles="\n".join(_asset(name) for name in STYLES),
        scripts="\n".join(_asset(name) for name in SCRIPTS),
        plotly=get_plotlyjs(),
        data=for_script(page_data(entries)),
        **words,
    )


def for_script(value: Any) -> str:
    """Return JSON that cannot end the script it stands in, whatever text it holds."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _asset(name: str) -> str:
    return (files("sightline.report") / "assets" / name).read_text(encoding="utf-8")


def _title(entries: Sequence[Entry]) -> str:
    testbeds = list(dict.fromkeys(entry.testbed for entry in entries))
    known = [name for name in testbeds if name != "unknown"]
    what = "the detector" if len(entries) == 1 else "each detector"
    return f"What {what} can see" + (f": {', '.join(known)}" if known else "")
