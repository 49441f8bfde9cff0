"""Workbooks whose cells reach further than any table."""

import re
import time as clock
import zipfile

import polars as pl
import pytest
from typer.testing import CliRunner

from sightline.cli.app import app
from sightline.errors import FileError
from sightline.tables.text_tables import check_workbook, read_table

SHEET = "xl/worksheets/sheet1.xml"


@pytest.fixture
def workbook(tmp_path):
    """Return what writes a small workbook with its first sheet changed."""

    def write(change, name="a.xlsx"):
        plain, path = tmp_path / "plain.xlsx", tmp_path / name
        times = [f"2026-01-01 00:{k:02d}:00" for k in range(20)]
        pl.DataFrame({"time": times, "LIT101": range(20)}).write_excel(plain)
        with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w", 8) as new:
            for part in old.infolist():
                content = old.read(part)
                if part.filename == SHEET:
                    content = change(content.decode()).encode()
                new.writestr(part.filename, content)
        return path

    return write


FAR = [
    '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
    "<row r='900000'>\n<c\tr='XFA900000' t='n'><v>1</v></c></row>",
    '<x:row r="1048576"><x:c s="1" r="ALL1048576"><v>1</v></x:c></x:row>',
]


@pytest.mark.parametrize("far", FAR)
def test_one_far_cell_is_named_before_the_library_reads(workbook, far):
    path = workbook(lambda text: text.replace("</sheetData>", f"{far}</sheetData>"))
    cell = re.search(r"r=.([A-Z]+\d+)", far)[1]
    begun = clock.process_time()
    with pytest.raises(FileError, match=f"the cell {cell} lies far from the others"):
        read_table(path, least_columns=2)
    assert clock.process_time() - begun < 2


def test_a_command_that_reads_a_workbook_names_the_cell(workbook, tmp_path):
    path = workbook(lambda text: text.replace("</sheetData>", f"{FAR[0]}</sheetData>"))
    done = CliRunner().invoke(app, ["start", str(path), "--out", str(tmp_path / "p")])
    assert (done.exit_code, "XFD1048576" in done.stderr) == (1, True)


def test_a_wide_dimension_alone_and_sparse_sheets_are_read(workbook):
    wide = workbook(
        lambda text: re.sub(
            '<dimension ref="[^"]*"', '<dimension ref="A1:XFD1048576"', text
        )
    )
    assert read_table(wide, least_columns=2).frame.height == 20
    # 400,000 rows of 60 tags, of which each holds one.
    sparse = workbook(
        lambda text: text.replace(
            "</sheetData>", '<row r="400000"><c r="BH400000"/></row></sheetData>'
        )
    )
    check_workbook(sparse)


@pytest.mark.parametrize("before", [5, 20, 45])
def test_a_cell_that_lies_across_two_pieces_is_seen(workbook, before):
    def change(text):
        at = len(text.partition("</sheetData>")[0].encode()) + len("<!---->")
        filler = f"<!--{'x' * ((1 << 20) - at - before)}-->"
        return text.replace("</sheetData>", f"{filler}{FAR[0]}</sheetData>")

    with pytest.raises(FileError, match="XFD1048576"):
        check_workbook(workbook(change))
