"""Facts about a recording; they are the same for all detectors."""
