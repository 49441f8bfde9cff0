"""The detectors' own scores and alarm rules, as their papers and code have them."""
