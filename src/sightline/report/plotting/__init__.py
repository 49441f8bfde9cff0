"""Figures for print: one style for reports and papers."""
