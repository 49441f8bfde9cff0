"""The page as a reader has it: in a real browser, from disk, without a network."""

import json
from itertools import pairwise

import pytest
from browser.conftest import AUTUMN
from report.plant import NOTE, PLAIN, QUOTED, SCRIPT, SPANS
from report.recordings import recording_facts

from sightline import read_results
from sightline.comparison.runs import group_runs, joint_verdicts
from sightline.report.page import DOORS
from sightline.text import mean_count

SECTIONS = {
    "glance": ".card.advised p.do",
    "each-attack": "table.explained svg.episode",
    "your-data": "table.tags svg.outline",
    "energy": "#chart-energy",
    "visibility": "#chart-roc",
    "reference": "#chart-spread",
    "rules": "table.rules tr.chosen",
    "false-alarms": "#chart-channels",
    "attacks": "#attack-table tr.attack",
    "comparison": "table.ranks",
    "provenance": "p.cite",
    "glossary": "details.more",
    "detectors": "table.glance",
}
CHARTS = {
    "energy": "energy",
    "roc": "visibility",
    "roc-low": "visibility",
    "auc-f1": "visibility",
    "windows": "visibility",
    "spread": "reference",
    "quantiles": "reference",
    "drift": "reference",
    "rules": "rules",
    "channels": "false-alarms",
    "hours": "false-alarms",
}
PHONE = {"width": 390, "height": 844}
SHOWN = "#attack-table tr.attack:not([hidden])"


def on_disk(report, detector, testbed="works"):
    for path in sorted(report.parent.glob("*/evaluation.json")):
        known = json.loads(path.read_text(encoding="utf-8"))
        if (known["stream"]["detector"], known["stream"]["testbed"]) == (
            detector,
            testbed,
        ):
            return known
    raise LookupError(detector)


def works(page):
    """Choose the testbed with several detectors."""
    options = page.locator("#testbed option").all_text_contents()
    page.select_option("#testbed", label="works")
    page.wait_for_timeout(300)
    assert set(options) == {"works", "second"}


def column(page, number):
    return page.locator(f"{SHOWN} > :nth-child({number})").all_text_contents()


def test_every_section_has_its_content_and_the_console_is_silent(open_page):
    page = open_page()
    works(page)
    for section, content in SECTIONS.items():
        page.goto(page.url.split("#")[0] + f"#{section}")
        page.locator(f"#{section}").locator(f"{content}:visible").first.wait_for()
        assert page.locator(f"#{section}").locator(content).count() > 0
    for name, section in CHARTS.items():
        page.goto(page.url.split("#")[0] + f"#{section}")
        page.locator(f"#chart-{name} svg.main-svg").first.wait_for(state="attached")


def test_names_are_shown_and_not_run(open_page):
    page = open_page(link="#attacks")
    works(page)
    attack = page.locator("#attack-table tbody:not([hidden])", has_text="A<1>")
    attack.locator(".open").first.click()
    page.wait_for_selector(".detail .js-plotly-plot")
    shown = page.locator("tbody:not([hidden]) .listed", has_text=NOTE)
    assert shown.count() == 1
    assert page.locator("#attack-table td.targets", has_text=SCRIPT).count() > 0
    assert page.get_by_role("rowheader", name=QUOTED).count() > 0
    assert page.locator("#chart-energy", has_text=QUOTED).count() == 1
    assert page.locator(".detail", has_text=SCRIPT).count() >= 1
    assert page.locator("img").count() == 0


def test_numbers_in_the_page_are_those_on_disk(open_page, report):
    page = open_page(link="#compare")
    works(page)
    for detector in (QUOTED, PLAIN, "mean"):
        known = on_disk(report, detector)
        row = page.locator("#paper tbody tr").filter(
            has=page.get_by_role("rowheader", name=detector, exact=True),
            has_text="works",
        )
        for cell in row.locator("[data-figure]").all():
            block, name = cell.get_attribute("data-figure").split(".")
            assert float(cell.get_attribute("data-value")) == pytest.approx(
                known[block][name]
            )
        shown = page.locator(".glance tr:visible").filter(
            has=page.get_by_role("rowheader", name=detector)
        )
        text = " ".join(" ".join(shown.all_inner_texts()).split())
        if rules := known["rules"]:
            own = next(row for row in rules["table"] if row["name"] == rules["chosen"])
            caught = own["attacks"]
            assert f"{caught['caught']} of {caught['n_attacks']}" in text
            assert mean_count(caught["caught_by_chance"]) in text
    joint = joint_verdicts(group_runs(read_results([report.parent])))
    for segment in on_disk(report, PLAIN)["segments"]:
        page.goto(page.url.split("#")[0] + "#attacks")
        row = (
            page.locator("#attack-table tbody:not([hidden])")
            .filter(has_text=segment["id"])
            .locator("tr.attack")
            .filter(has_text=PLAIN)
        )
        assert float(row.get_attribute("data-coverage")) == segment["coverage"]
        # As all detectors of the testbed together judge it.
        assert joint["works", PLAIN, segment["id"]].verdict in row.inner_text()
        assert f"{segment['confidence']:.0%}" in row.inner_text()


def test_the_table_sorts_both_ways(open_page):
    page = open_page(link="#attacks")
    works(page)
    button = page.locator("[data-sort=coverage]")
    button.click()
    # The detectors of each attack, and the attacks by the first of them.
    read = """bodies => bodies.map(body => [...body.querySelectorAll('tr.attack')]
      .map(row => Number(row.dataset.coverage)))"""
    bodies = page.locator("#attack-table tbody:not([hidden])")
    rising = bodies.evaluate_all(read)
    assert len(rising) == len(SPANS)
    assert all(rows == sorted(rows) for rows in rising)
    assert rising == sorted(rising, key=lambda rows: rows[0])
    assert button.locator("xpath=..").get_attribute("aria-sort") == "ascending"
    button.click()
    falling = bodies.evaluate_all(read)
    assert all(rows == sorted(rows, reverse=True) for rows in falling)
    assert falling == sorted(falling, key=lambda rows: rows[0], reverse=True)
    page.locator("[data-sort=detector]").click()
    for first in range(0, len(column(page, 1)), 3):
        labels = column(page, 1)[first : first + 3]
        assert labels == sorted(labels, key=str.lower)
    button = page.locator("[data-sort=start]")
    button.click()
    read = "bodies => bodies.map(body => Number(body.dataset.start))"
    assert bodies.evaluate_all(read) == [start for start, _ in SPANS]
    button.click()
    assert bodies.evaluate_all(read) == [start for start, _ in SPANS][::-1]


def test_the_table_filters_by_verdict_stage_and_detector(open_page, report):
    page = open_page(link="#attacks")
    works(page)
    assert page.locator(SHOWN).count() == 3 * len(SPANS)
    page.select_option("#filter-detector", value=f"works_{PLAIN}")
    assert {text.strip("▸ ") for text in column(page, 1)} == {PLAIN}
    known = on_disk(report, PLAIN)
    page.select_option("#filter-verdict", value="missed")
    missed = len(SPANS) - known["verdict_counts"]["detected"]
    assert page.locator(SHOWN).count() == missed
    assert page.locator("#attack-count").inner_text().startswith(str(missed))
    page.select_option("#filter-verdict", value="")
    page.select_option("#filter-stage", label="stage 2")
    facts = page.locator("#attack-table tbody:not([hidden]) .facts-of-attack .targets")
    assert facts.count() == len(SPANS) // 2
    assert all("stage 2" in text for text in facts.all_text_contents())


def test_a_row_opens_to_its_picture_and_closes(open_page, report):
    page = open_page(link="#attacks")
    works(page)
    page.select_option("#filter-detector", value=f"works_{PLAIN}")
    row = page.locator(SHOWN).first
    button = row.locator(".open")
    button.click()
    detail = page.locator("tr.detail")
    detail.locator("svg.main-svg").first.wait_for()
    assert button.get_attribute("aria-expanded") == "true"
    segment = on_disk(report, PLAIN)["segments"][0]
    assert segment["sentence"] in detail.inner_text()
    assert detail.locator(".rung").count() == len(segment["ladder"])
    assert detail.locator(".hm").count() > 0
    button.click()
    assert page.locator("tr.detail").count() == 0


def test_a_link_leads_to_its_row_and_can_be_copied(open_page):
    page = open_page(link="#attacks")
    works(page)
    row = page.locator(SHOWN).nth(4)
    name = row.get_attribute("id")
    page.evaluate("() => { navigator.clipboard.writeText = async () => {}; }")
    row.locator(".copy").click()
    row.locator(".copy", has_text="copied").wait_for()
    page.evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject('no'); }"
    )
    page.wait_for_timeout(1600)
    row.locator(".copy").click()
    row.locator(".copy", has_text="in the address bar").wait_for()
    assert page.url.endswith(f"#{name}")
    other = open_page(link=f"#{name}")
    target = other.locator(f'[id="{name}"]')
    # Charts above grow as they are drawn; the row is in view all the same.
    top = target.evaluate("row => row.getBoundingClientRect().top")
    assert 0 <= top < 200
    assert target.locator(".open").get_attribute("aria-expanded") == "true"
    assert target.is_visible()
    assert other.locator("tr.detail svg.main-svg").count() > 0


def test_a_broken_link_does_not_break_the_page(open_page):
    page = open_page(link="#attack-%E0%A4%A")
    assert page.locator(".card.advised:visible").count() > 0


def test_cells_of_the_matrix_lead_to_their_attacks(open_page):
    page = open_page(link="#compare")
    works(page)
    page.locator("summary", has_text="Which detector detects which").click()
    cell = page.locator("table.matrix:visible td a").first
    name = cell.get_attribute("href")[1:]
    cell.click()
    page.wait_for_selector(f'[id="{name}"].is-open')


def test_zooming_shows_finer_data_for_all_detectors(open_page):
    page = open_page(link="#energy")
    works(page)
    read = """() => document.getElementById('chart-energy').data
      .filter(t => t.mode === 'lines').map(t => {
        const x = t.x.filter(v => v !== null);
        return [x[0], x[x.length - 1], x.length];
      })"""
    whole = page.evaluate(read)
    for _ in range(3):
        page.locator("[data-zoom=in]").click()
        page.wait_for_timeout(250)
    closer = page.evaluate(read)
    assert len(whole) == len(closer) == 3
    for (start, stop, _), (from_, to, _) in zip(whole, closer, strict=True):
        assert from_ > start
        assert to < stop
    page.locator("[data-zoom=all]").click()
    page.wait_for_timeout(250)
    assert page.evaluate(read) == whole


def test_at_an_end_of_the_record_the_view_moves_and_does_not_shrink(open_page):
    page = open_page(link="#energy")
    works(page)

    def press(name, times=1):
        for _ in range(times):
            page.locator(f"[data-zoom={name}]").click()
            page.wait_for_timeout(60)
        return page.evaluate("window.sightline.energyView.range")

    start, stop = press("in", 2)
    wide = stop - start
    for button in ("forward", "back"):
        start, stop = press(button, 4)
        assert stop - start == pytest.approx(wide)
    start, stop = press("in", 16)
    # Rows are 10 s apart.
    assert 30_000 <= stop - start <= 110_000


def test_thinning_in_the_page_keeps_every_peak(open_page):
    page = open_page()
    lost = page.evaluate(
        """() => {
          let lost = 0;
          for (let trial = 0; trial < 200; trial++) {
            const n = 1 + Math.floor(Math.random() * 3000);
            const columns = 1 + Math.floor(Math.random() * 90);
            const values = Uint16Array.from({length: n}, () => Math.random() * 4095);
            const rows = Array.from(window.sightline.thinned(values, 0, n, columns));
            if (rows.some((row, i) => i && row <= rows[i - 1])) lost++;
            for (let c = 0; c < columns; c++) {
              const a = Math.floor(c * n / columns);
              const b = Math.floor((c + 1) * n / columns);
              if (b <= a) continue;
              const all = Array.from(values.slice(a, b));
              const kept = rows.filter(r => r >= a && r < b).map(r => values[r]);
              if (Math.max(...all) !== Math.max(...kept)) lost++;
              if (Math.min(...all) !== Math.min(...kept)) lost++;
            }
          }
          return lost;
        }"""
    )
    assert lost == 0


def test_the_theme_can_be_switched(open_page):
    page = open_page(dark=True)
    read = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(read)
    page.locator("#theme").click()
    light = page.evaluate(read)
    assert sum(map(int, dark[4:-1].split(","))) < 200
    assert sum(map(int, light[4:-1].split(","))) > 600


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [PHONE, {"width": 1024, "height": 800}])
def test_nothing_overflows_or_overlaps(open_page, size, dark):
    page = open_page(**size, dark=dark, link="#attacks")
    works(page)
    page.locator(f"{SHOWN} .open").first.click()
    page.wait_for_selector("tr.detail svg.main-svg")
    wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wider <= 0
    overlaps = page.evaluate(
        """() => {
          const kinds = ['main h2', 'main h3', 'main > section > p', '.scroll',
            '.chart', '.callout', '.tools', 'figure'];
          const parts = [...document.querySelectorAll(kinds.join(','))].filter(
            e => e.checkVisibility() && e.getBoundingClientRect().height > 0);
          const called = e => e.id || e.className || e.textContent;
          const found = [];
          for (const a of parts) for (const b of parts) {
            if (a === b || a.contains(b) || b.contains(a)) continue;
            const [p, q] = [a.getBoundingClientRect(), b.getBoundingClientRect()];
            const x = Math.min(p.right, q.right) - Math.max(p.left, q.left);
            const y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
            if (x > 2 && y > 2) found.push([called(a), called(b)]);
          }
          return found;
        }"""
    )
    assert overlaps == []
    # A chart's drawing stays within its place.
    spills = page.evaluate(
        """() => [...document.querySelectorAll('.chart')].filter(e => {
          const height = part => part.getBoundingClientRect().height;
          const svg = e.querySelector('.main-svg');
          return svg && height(svg) > height(e) + 2;
        }).map(e => e.id)"""
    )
    assert spills == []


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_long_names_overflow_nothing(open_page, crowded, width):
    page = open_page(width=width, path=crowded, link="#attacks")
    page.locator(f"{SHOWN} .open").first.click()
    page.wait_for_selector("tr.detail svg.main-svg")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    outside = page.evaluate(
        """() => [...document.querySelectorAll('label, select, .rung small')]
          .filter(e => e.checkVisibility()
            && e.getBoundingClientRect().right > innerWidth)
          .map(e => e.textContent)"""
    )
    assert outside == []
    room = page.locator("tr.detail .inner").evaluate(
        """e => e.closest('.scroll').getBoundingClientRect().right
          - e.getBoundingClientRect().right"""
    )
    assert room >= 0
    chart = page.locator("#chart-energy").inner_text()
    assert "…" in chart
    text = page.locator("tr.detail .rung", has_text="The p99 limit").inner_text()
    assert "not shown; p 0.066" in text
    assert "attack-free stretches 10%, 95% of them up to 62%" in text
    page.goto(page.url.split("#")[0] + "#compare")
    glance = page.locator("#detectors .scroll:visible").first
    assert glance.evaluate("e => e.scrollWidth - e.clientWidth") <= 0


def test_the_table_at_a_glance_fits_a_tablet(open_page):
    page = open_page(width=768, link="#compare")
    works(page)
    glance = page.locator("#detectors .scroll:visible").first
    assert glance.evaluate("e => e.scrollWidth - e.clientWidth") <= 0


def test_every_attack_is_printed_and_fits_the_sheet(open_page, crowded):
    page = open_page(width=688, path=crowded, link="#attacks")
    count = f"document.querySelectorAll('{SHOWN}').length"
    assert page.evaluate(count) == 30
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(count) == 36
    table = page.locator("#attack-table")
    assert table.evaluate("e => e.getBoundingClientRect().right") <= 688
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(count) == 30


def test_the_keyboard_reaches_every_control(open_page):
    page = open_page(link="#attacks")
    works(page)
    wanted = page.evaluate(
        """() => {
          const kinds = 'a[href], button, select, summary, [tabindex="0"]';
          const all = [...document.querySelectorAll(kinds)];
          const open = all.filter(e => e.checkVisibility() && !e.disabled);
          open.forEach((e, i) => { e.dataset.reach = i; });
          document.activeElement.blur();
          return open.length;
        }"""
    )
    reached = set()
    for _ in range(wanted + 20):
        page.keyboard.press("Tab")
        at = page.evaluate("document.activeElement?.dataset?.reach ?? null")
        if at is not None:
            reached.add(at)
    assert len(reached) == wanted
    button = page.locator(f"{SHOWN} .open").first
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("tr.detail svg.main-svg")


SIZES = [{"width": 1400, "height": 900}, PHONE]


def serious_faults(page):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright",
        reason="needs axe-playwright-python: make test-browser installs it",
    )
    found = axe.Axe().run(page).response["violations"]
    return [
        (fault["id"], [node["html"][:200] for node in fault["nodes"][:4]])
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]


def serious_faults_behind(page, door):
    page.goto(page.url.split("#")[0] + f"#{door}")
    page.evaluate(
        "document.querySelectorAll('.door[data-open] details, main > .fold details')"
        ".forEach(fold => { fold.open = true; })"
    )
    page.wait_for_timeout(800)  # charts that were folded are drawn
    return serious_faults(page)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_no_serious_fault(open_page, size, dark):
    page = open_page(**size, dark=dark, link="#attacks")
    works(page)
    page.locator(f"{SHOWN} .open").first.click()
    page.wait_for_selector("tr.detail svg.main-svg")
    for door in DOORS:
        assert serious_faults_behind(page, door) == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_no_serious_fault_without_incidents(open_page, calm, size, dark):
    page = open_page(**size, dark=dark, path=calm)
    for door in DOORS:
        assert serious_faults_behind(page, door) == []
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


# The first screen


@pytest.mark.parametrize("size", SIZES)
def test_the_first_screen_answers_five_questions(open_page, calm, size):
    for path, title in ((None, "second and works"), (calm, "riverside")):
        page = open_page(**size, **({} if path is None else {"path": path}))
        assert page.locator("h1").inner_text() == title
        assert page.title() == title
        cards = page.locator(".card:visible")
        heads = cards.locator("h2").all_inner_texts()
        assert heads[0] == "What to do"
        assert heads[2:] == ["What it cannot see", "What must be reviewed first"]
        assert "rows" in page.locator(".lede:visible").inner_text()
        bottoms = cards.evaluate_all(
            "cards => cards.map(card => card.getBoundingClientRect().bottom)"
        )
        # On a phone what to change and what was found need no scrolling.
        seen = 4 if size["width"] == 1400 else 2
        assert bottoms[seen - 1] <= size["height"]


def test_the_first_screen_says_what_the_results_say(open_page, report, calm):
    page = open_page()
    works(page)
    first = page.locator(".first-screen:visible").inner_text()
    # It speaks of the detector whose rule keeps the budget.
    rules = on_disk(report, QUOTED)["rules"]
    assert rules["chosen"] in first
    assert ".npz --out blind" in first
    chosen = next(row for row in rules["table"] if row["name"] == rules["chosen"])
    caught = chosen["attacks"]["caught"]
    assert f"{caught} of {chosen['attacks']['n_attacks']}" in first
    page = open_page(path=calm)
    first = page.locator(".first-screen").inner_text()
    assert "No incident is listed" in first
    assert "Largest blind spot:" in first
    assert "Attacks found" not in first


# Tooltips


def tip_of(page):
    return page.locator("#tip:visible")


def test_a_term_shows_its_entry_to_pointer_keyboard_and_touch(open_page):
    page = open_page(link="#rules")
    works(page)
    wanted = page.locator("#term-skill").text_content()
    term = page.locator("table.rules:visible [data-term=skill]").first
    term.scroll_into_view_if_needed()
    term.hover()
    assert tip_of(page).inner_text() == wanted
    page.mouse.move(5, 400)
    assert tip_of(page).count() == 0
    page.locator("table.rules:visible [data-term=caught]").first.focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.term") == "skill"
    assert tip_of(page).inner_text() == wanted
    page.keyboard.press("Escape")
    assert tip_of(page).count() == 0
    page.keyboard.press("Enter")
    # The glossary is folded: the link unfolds it.
    page.wait_for_selector("#term-skill:visible")
    phone = open_page(**PHONE, touch=True)
    works(phone)
    term = phone.locator(".first-screen:visible [data-term=caught]").first
    term.tap()
    assert tip_of(phone).inner_text() == phone.locator("#term-caught").text_content()
    box = tip_of(phone).bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]
    assert not phone.url.endswith("#term-caught")
    phone.locator(".first-screen:visible [data-term=caught]").first.tap()
    phone.wait_for_selector("#term-caught:visible")
    assert phone.url.endswith("#term-caught")


def test_a_verdict_in_a_row_explains_itself_and_the_row_opens(open_page):
    page = open_page(link="#attacks")
    works(page)
    row = page.locator(SHOWN).first
    verdict = row.locator(".verdict")
    verdict.scroll_into_view_if_needed()
    verdict.hover()
    key = verdict.get_attribute("data-term")
    assert tip_of(page).inner_text() == page.locator(f"#term-{key}").text_content()
    verdict.click()
    assert row.locator(".open").get_attribute("aria-expanded") == "true"


# Opening an attack


def test_a_click_anywhere_in_a_row_opens_the_attack(open_page):
    page = open_page(link="#attacks")
    works(page)
    row = page.locator(SHOWN).nth(1)
    row.locator("td").nth(3).click()
    assert row.locator(".open").get_attribute("aria-expanded") == "true"
    page.wait_for_selector("tr.detail svg.main-svg")
    row.locator("td").nth(3).click()
    assert page.locator("tr.detail").count() == 0
    # A click into the details closes nothing; one on the attack opens its first row.
    page.locator("tr.facts-of-attack:visible td").nth(2).click()
    first = page.locator(SHOWN).first
    assert first.locator(".open").get_attribute("aria-expanded") == "true"
    page.locator("tr.detail .sentence").click()
    assert first.locator(".open").get_attribute("aria-expanded") == "true"
    first.locator(".open").focus()
    page.keyboard.press("Space")
    assert page.locator("tr.detail").count() == 0


def test_an_attack_has_a_link_of_its_own_and_its_note(open_page):
    page = open_page(link="#attacks")
    works(page)
    attack = page.locator("#attack-table tbody:not([hidden])").nth(3)
    name = attack.get_attribute("id")
    attack.locator(".facts-of-attack .copy").click()
    assert page.url.endswith(f"#{name}")
    other = open_page(link=f"#{name}")
    place = other.locator(f'[id="{name}"]')
    assert 0 <= place.evaluate("e => e.getBoundingClientRect().top") < 200
    rows = place.locator("tr.attack .open")
    expanded = rows.evaluate_all("all => all.map(one => one.ariaExpanded)")
    assert expanded == ["true", "false", "false"]
    noted = page.locator("#attack-table tbody:not([hidden]) .listed")
    assert noted.all_inner_texts() == [NOTE]


# On paper


def test_a_printed_page_holds_everything_unfolded(open_page):
    page = open_page(width=700, link="#attacks")
    works(page)
    folded = "document.querySelectorAll('details:not([open])').length"
    before = page.evaluate(folded)
    assert before > 5
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(folded) == 0
    rows, details = page.locator(SHOWN), page.locator("tr.detail")
    assert details.count() == rows.count() == 3 * len(SPANS)
    assert page.locator("tr.detail .printed-score svg").count() == rows.count()
    assert page.locator("#term-skill").is_visible()
    wider = page.evaluate(
        """() => [...document.querySelectorAll('.detail .inner, .card, .chart')]
          .filter(e => e.getBoundingClientRect().right > 701).length"""
    )
    assert wider == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(folded) == before
    assert page.locator("tr.detail").count() == 0


def test_the_page_works_where_storage_is_refused(browser, report):
    page = browser.new_page()
    faults = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw Error('no'); }})"
    )
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
    page.locator("#theme").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert faults == []
    page.close()


TAGS = "table.tags tbody tr:not([hidden]) > :first-child"


def shown_tags(page):
    found = page.locator(TAGS).evaluate_all("rows => rows.map(r => r.firstChild.data)")
    return [name.strip() for name in found]


def test_tags_are_folded_found_and_sorted(open_page):
    page = open_page(link="#your-data")
    works(page)
    tags = [tag.name for tag in recording_facts().tags]
    assert shown_tags(page) == tags[:30]
    assert page.locator(".tag-count:visible").text_content() == "30 of 47 tags"
    page.locator(".find-tag:visible").fill("tag_00")
    assert shown_tags(page) == [f"TAG_{k:03d}" for k in range(10)]
    page.locator(".find-tag:visible").fill("ACTUATOR")
    assert len(shown_tags(page)) == sum(
        tag.role == "actuator" for tag in recording_facts().tags
    )
    page.locator(".find-tag:visible").fill("")
    page.locator(".show-tags:visible").click()
    page.locator("table.tags thead button:visible", has_text="Spread").click()
    spreads = {tag.name: tag.train.spread for tag in recording_facts().tags}
    assert shown_tags(page) == sorted(tags, key=spreads.get)
    page.locator("table.tags:visible th:first-child button").click()
    page.locator("table.tags:visible th:first-child button").click()
    header = page.locator("table.tags:visible th[aria-sort=descending]")
    assert header.text_content().strip() == "Tag"
    assert shown_tags(page)[0] == "TAG_039"


def test_findings_lead_from_the_first_screen_to_your_data(open_page):
    page = open_page()
    works(page)
    alert = page.locator(".alert:visible")
    assert alert.text_content().strip().endswith("See Your data.")
    alert.locator("a").click()
    first = page.locator(".finding:visible").first
    assert first.get_attribute("data-severity") == "error"
    assert first.is_visible()
    page.select_option("#testbed", label="second")
    assert page.locator("#your-data .notice:visible").count() == 1
    assert page.locator(".alert:visible").count() == 0


def test_clocks_that_go_back_double_no_hour_on_the_axis(open_page, autumn):
    page = open_page(path=autumn, link="#explain")
    clock = "sightline.DATA.entries[0].clock"
    times = page.evaluate("document.getElementById('chart-energy').data[0].x")
    assert times == sorted(times)
    around = [1000 * (AUTUMN + shift) for shift in (-5400, 5400)]
    ticks = page.evaluate(f"sightline.clockTicks({clock}, {around}, 10)")
    labels = [text.partition("<br>")[0] for text in ticks["ticktext"]]
    expected = ["01:30", "02:00", "02:30", "02:00", "02:30", "03:00", "03:30"]
    assert labels == expected
    steps = {b - a for a, b in pairwise(ticks["tickvals"])}
    assert steps == {1_800_000}
    shown = page.evaluate(f"sightline.clockText({clock}, {1000 * AUTUMN})")
    assert shown == "Oct 25, 2026, 02:00:00"
    title = page.locator("#chart-energy .xtitle").text_content()
    assert title == "times in Europe/Berlin"
    page.locator("[data-zoom=in]").click()
    page.wait_for_timeout(400)
    drawn = page.locator("#chart-energy .xtick text").all_text_contents()
    assert any("Oct 25, 2026" in text for text in drawn)


def test_the_other_testbed_can_be_chosen(open_page):
    page = open_page(link="#attacks")
    page.select_option("#testbed", label="second")
    page.wait_for_timeout(300)
    assert page.locator(SHOWN).count() == len(SPANS)
    assert page.locator("#chart-energy").inner_text().count(PLAIN) == 1


def test_the_page_prints(open_page, tmp_path):
    page = open_page(dark=True)
    works(page)
    path = tmp_path / "report.pdf"
    page.pdf(path=path, prefer_css_page_size=True)
    assert path.stat().st_size > 50_000


def test_rules_are_shown_for_the_selected_detector_and_fit_a_phone(open_page, report):
    page = open_page(link="#rules")
    works(page)
    for detector in (PLAIN, QUOTED):
        page.select_option("#rules-entry", label=detector)
        known = on_disk(report, detector)["rules"]
        block = page.locator("[data-rules-of]:visible")
        assert known["advice"] in block.first.inner_text()
        rows = page.locator("table.rules:visible tbody tr")
        assert rows.count() == len(known["present"]) + len(known["table"])
        chosen = page.locator("table.rules:visible tr.chosen")
        assert known["chosen"] in chosen.inner_text()
        points = page.evaluate(
            "() => document.getElementById('chart-rules').data"
            ".filter(one => one.mode === 'markers').length"
        )
        assert points == rows.count()
        command = page.locator("[data-rules-of]:visible code").first.inner_text()
        assert command.startswith("sightline commission ")
        assert f"--budget {known['budget']}" in command
    page = open_page(**PHONE, link="#rules")
    works(page)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["width"]
    table = page.locator("table.rules:visible")
    assert table.evaluate("t => t.scrollWidth <= t.parentElement.clientWidth")


# The doors


def open_words(page):
    return len(page.evaluate("document.body.innerText").split())


def test_a_link_opens_its_door_and_unfolds_its_section(open_page):
    page = open_page()
    works(page)
    shown = page.locator(".door:visible")
    assert shown.get_attribute("id") == "decide"
    page.locator("nav.doors a", has_text="Compare").click()
    assert shown.get_attribute("id") == "compare"
    current = page.locator(".doors [aria-current=page]")
    assert current.all_inner_texts() == ["Compare"]
    page.goto(page.url.split("#")[0] + "#false-alarms")
    assert shown.get_attribute("id") == "explain"
    page.locator("#chart-channels svg.main-svg").first.wait_for()
    # The glossary is behind no door: the reader stays where he is.
    page.goto(page.url.split("#")[0] + "#term-skill")
    assert shown.get_attribute("id") == "explain"
    assert page.locator("#term-skill").is_visible()
    page.locator(".explained:visible tbody th a").first.click()
    page.wait_for_selector("#attack-table tr.is-open:visible")
    page.go_back()
    assert shown.get_attribute("id") == "explain"


@pytest.mark.parametrize("which", ["report", "calm"])
def test_each_door_has_at_most_2000_words(open_page, calm, which):
    page = open_page(**{"path": calm} if which == "calm" else {})
    for door in DOORS:
        page.goto(page.url.split("#")[0] + f"#{door}")
        assert 100 < open_words(page) <= 2000, door


def test_the_doors_open_without_scripts(browser, report):
    page = browser.new_context(java_script_enabled=False).new_page()
    shown = page.locator(".door:visible")
    for link, door in (("", "decide"), ("#compare", "compare"), ("#energy", "explain")):
        page.goto(f"{report.as_uri()}{link}")
        assert shown.count() == 1
        assert shown.get_attribute("id") == door
    page.locator("nav.doors a", has_text="Decide").click()
    assert shown.get_attribute("id") == "decide"
    page.context.close()


def test_a_chart_fits_its_place_after_another_door_was_open(open_page):
    page = open_page(link="#explain")
    page.goto(page.url.split("#")[0] + "#compare")
    page.set_viewport_size({"width": 700, "height": 900})
    page.goto(page.url.split("#")[0] + "#explain")
    page.wait_for_timeout(400)
    spill = """() => { const place = document.getElementById('chart-energy');
      return place.querySelector('.main-svg').clientWidth - place.clientWidth; }"""
    assert page.evaluate(spill) <= 2  # its border


# Pictures


def test_the_slider_shows_what_another_budget_would_do(open_page, report):
    page = open_page()
    works(page)
    part = page.locator(".what-if:visible")
    slider, said = part.locator("input"), part.locator("output")
    known = on_disk(report, QUOTED)["rules"]["what_if"]
    values = part.locator(".tiles dd")
    budget = f"{known[0]['per_day']:.3g} a day"
    slider.focus()
    page.keyboard.press("Home")
    assert said.inner_text().startswith(budget)
    assert slider.evaluate("e => e.ariaValueText").startswith(budget)
    least = values.all_inner_texts()
    assert f"{known[0]['attacks']['caught']} of " in least[3]
    page.keyboard.press("End")
    assert said.inner_text().startswith(f"{known[-1]['per_day']:.3g} a day")
    most = values.all_inner_texts()
    assert f"{known[-1]['attacks']['caught']} of " in most[3]
    assert float(most[0].replace(",", "")) < float(least[0].replace(",", ""))


def test_the_trace_of_the_rule_and_the_faults_of_tags_are_drawn(open_page, calm):
    page = open_page()
    works(page)
    trace = page.locator(".rule-trace:visible")
    assert trace.locator("path").count() == 1
    assert trace.locator("rect.alarm").count() > 0
    assert trace.bounding_box()["width"] > 600
    page = open_page(path=calm)
    faults = page.locator(".faults li:visible")
    assert faults.count() > 0
    assert faults.locator("svg rect").count() == faults.count()
