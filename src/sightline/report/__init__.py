"""The report: one page that shows what each detector can see, from results alone."""

from sightline.report.write import write_report

__all__ = ["write_report"]
