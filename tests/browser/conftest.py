"""A real browser; where there is none, these tests are skipped and say why."""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from blind_records import fitted
from report.plant import PLAIN, evaluations, stream, write_crowded_plant
from report.recordings import findings, recording_facts

from sightline import evaluate, find_blind_spots, write_report, write_results
from sightline.storage import Result

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or ""
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 60_000
# Clocks in Berlin go back at this second of 2026.
AUTUMN = 1_792_890_000


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """Return a page of two testbeds; the first carries facts about its recording."""
    folder = tmp_path_factory.mktemp("browser") / "results"
    facts = {"recording": recording_facts(), "findings": findings()}
    write_results(
        [
            replace(evaluation, **facts if evaluation.stream.testbed == "works" else {})
            for evaluation in evaluations()
        ],
        folder,
    )
    return write_report(folder, folder / "report.html")


@pytest.fixture(scope="session")
def autumn(tmp_path_factory):
    """Return a page whose record goes through the end of summer time in Berlin."""
    base = evaluations()[0]
    time = AUTUMN - 20_000 + 10.0 * np.arange(len(base.traces.test_energy))
    changed = replace(
        base,
        stream=replace(base.stream, timezone="Europe/Berlin"),
        traces=replace(base.traces, test_time=time),
    )
    folder = tmp_path_factory.mktemp("autumn") / "results"
    write_results([changed], folder)
    return write_report(folder, folder / "report.html")


@pytest.fixture(scope="session")
def crowded(tmp_path_factory):
    folder = write_crowded_plant(tmp_path_factory.mktemp("crowded") / "results")
    return write_report(folder, folder / "report.html")


@pytest.fixture(scope="session")
def calm(tmp_path_factory):
    """Return a page of a plant without incidents, whose blind spots were searched."""
    given = stream(PLAIN, testbed="riverside")
    quiet = given.replace(labels=np.zeros(given.test.n_rows), segments=())
    made = replace(
        evaluate(quiet, intervals=False, budget="96/day,5%"),
        recording=recording_facts(),
        findings=findings(),
    )
    detector, train, test = fitted()
    spots = find_blind_spots(
        detector, test, train=train, shapes=["step", "frozen"], durations_s=[300.0]
    )
    result = replace(Result.of(made), blind_spots=spots)
    return write_report([result], tmp_path_factory.mktemp("calm") / "report.html")


@pytest.fixture(scope="session")
def browser():
    api = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: make test-browser installs it"
    )
    if not CHROMIUM:
        pytest.skip("needs chromium: make test-browser installs it")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def open_page(browser, report):
    """Give a function that opens the report, from disk and without a network."""
    opened = []

    def opening(
        *, width=1280, height=900, dark=False, link="", touch=False, path=report
    ):
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            offline=True,
            has_touch=touch,
        )
        page = context.new_page()
        page.faults = []
        page.on(
            "console",
            lambda said: (
                page.faults.append(said.text) if said.type == "error" else None
            ),
        )
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("dialog", lambda box: (page.faults.append(box.message), box.dismiss()))
        page.on(
            "request",
            lambda asked: (
                page.faults.append(asked.url)
                if not asked.url.startswith(("file:", "data:", "blob:"))
                else None
            ),
        )
        page.goto(f"{path.as_uri()}{link}")
        page.wait_for_selector("html[data-drawn=all]", timeout=PATIENCE_MS)
        page.wait_for_selector("html[data-ready=yes]", timeout=PATIENCE_MS)
        opened.append((context, page))
        return page

    yield opening
    for context, page in opened:
        faults = page.faults
        context.close()
        assert faults == []
