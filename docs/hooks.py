"""Pages of the site that are made when it is built: the reference, and root files.

The reference has one page for each public name, from its docstring. Files at the root
of the repository, such as SECURITY.md, become pages too, and examples are copied, so
that links to them work.
"""

import inspect
import re
from pathlib import Path
from typing import Any

import sightline

ROOT = Path(__file__).parents[1]
# Files at the root, and their titles in the navigation.
ROOT_PAGES = {
    "CONTRIBUTING.md": "Contributing",
    "CODE_OF_CONDUCT.md": "Code of conduct",
    "SECURITY.md": "Security",
    "CHANGELOG.md": "Changelog",
}
# Examples that pages link to.
EXAMPLES = ("notebook.ipynb",)
# Groups of the reference, in the order of a walk; other names come under "More".
GROUPS = {
    "Streams": "ResidualStream Attack Segment read_stream write_stream read_tables",
    "Evaluating": "evaluate Evaluation Reference fit_reference energy_trace "
    "contributions on_cluster compare Comparison",
    "Results": "write_results read_evaluation read_results write_report write_up "
    "write_tables log_to_mlflow",
    "Testbeds and detectors": "open_testbed list_testbeds inspect_testbed Testbed "
    "Recording Tag make_detector list_detectors load_detector check_detector Detector "
    "Residuals export_stream",
    "Alarm rules": "commission Budget Rule QuantileRule write_rule read_rule "
    "watch_folder find_episodes write_review_list find_blind_spots BlindSpots",
    "Studies": "read_plan plan_of StudyPlan run_study",
    "Progress": "progress_bar Step StepKind",
}


def grouped() -> dict[str, list[str]]:
    """Return all public names by group."""
    groups = {title: names.split() for title, names in GROUPS.items()}
    listed = {name for names in groups.values() for name in names}
    public = [name for name in sightline.__all__ if not name.startswith("_")]
    errors = [name for name in public if name.endswith(("Error", "Warning"))]
    more = [name for name in public if name not in {*listed, *errors}]
    groups = {
        title: [name for name in names if name in public]
        for title, names in groups.items()
    }
    return {**groups, "More": more, "Errors": errors}


def reference_page(name: str) -> str:
    """Return the page of a public name: its docstring, by where it is defined."""
    value = getattr(sightline, name)
    page = f"::: {value.__module__}.{value.__qualname__}\n"
    page += f"    options:\n      heading: sightline.{name}\n"
    # A record that extends others has their fields too.
    for base in value.__mro__[1:] if inspect.isclass(value) else ():
        if "Parameters" in (base.__doc__ or "") and "sightline" in base.__module__:
            page += f"\n::: {base.__module__}.{base.__qualname__}\n"
            page += "    options:\n      members: false\n      heading_level: 2\n"
    return page


def overview() -> str:
    """Return the first page of the reference: each name with its first line."""
    lines = ["# Python names", "", "Import them from `sightline`.", ""]
    for title, names in grouped().items():
        lines += [f"## {title}", "", "| name | |", "|---|---|"] if names else []
        for name in names:
            first = (inspect.getdoc(getattr(sightline, name)) or "").splitlines()[0]
            lines.append(f"| [`{name}`]({name}.md) | {first} |")
        lines.append("")
    return "\n".join(lines)


def on_config(config: Any) -> Any:
    """Add the generated pages to the navigation."""
    python = [{"Overview": "reference/index.md"}] + [
        {title: [{name: f"reference/{name}.md"} for name in names]}
        for title, names in grouped().items()
        if names
    ]
    for section in config.nav:
        if "Reference" in section:
            section["Reference"].insert(0, {"Python": python})
        if "Project" in section:
            section["Project"] += [
                {title: f"project/{name}"} for name, title in ROOT_PAGES.items()
            ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    pages = {
        f"reference/{n}.md": reference_page(n) for ns in grouped().values() for n in ns
    }
    pages["reference/index.md"] = overview()
    for name in ROOT_PAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        pages[f"project/{name}"] = re.sub(r"\]\(docs/", "](../", text)
    for name in EXAMPLES:
        pages[f"examples/{name}"] = (ROOT / "examples" / name).read_text("utf-8")
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links to files at the root to their pages; leave out marks of code.

    The words after the language of a block, such as ``run``, are for the tests.
    """
    markdown = re.sub(r"^```(\w+) [\w -]+$", r"```\1", markdown, flags=re.M)
    if page.file.src_uri.startswith(("reference/", "project/")):
        return markdown
    for name in ROOT_PAGES:
        markdown = markdown.replace(f"](../{name}", f"](project/{name}")
    return markdown.replace("](../examples/", "](examples/")
