"""Every table once: what it shows is a list of columns, which all renderers read.

What a table shows is changed in one of these modules, for terminal, notebook, page,
CSV files, frames, Markdown and LaTeX at once:

- `attacks`: attacks of an evaluation, ``segments.csv``, what would show an attack.
- `evaluations`: evaluations, attacks caught with chance and cost, ``summary.csv``.
- `rules`: alarm rules in use and on later rows, and their members.
- `comparison`: detectors beside one another: figures, ranks, differences, verdicts.
- `blind_spots`: what rules miss, and what they cost.
- `catalogue`: files, recordings and tags of plants, settings of detectors.

A column (`table.Column`) has a key, a header, a getter, an alignment and a sentence
that explains it; headers and sentences of figures come from `sightline.figures`.
Renderers: `terminal` (rich), `html` (notebooks; the page by ``templates/table.html``),
`table` (CSV and frames), `printed` (Markdown and LaTeX, with `phrases`). No class here
copies the fields of a record.
"""
