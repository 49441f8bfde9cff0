"""Figures for print: one style for the report and the paper, as SVG and PNG."""
