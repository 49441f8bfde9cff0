"""The report: one page that shows what each detector can see, from results alone."""

from sightline.report.page import figures_folder, write_report
from sightline.report.print_figures import figures_in
from sightline.report.redaction import what_remains

__all__ = ["figures_folder", "figures_in", "what_remains", "write_report"]
