"""The report: one page that shows what each detector can see, from results alone."""

from sightline.report.page import figures_folder, write_report

__all__ = ["figures_folder", "write_report"]
