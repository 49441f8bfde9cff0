"""How values show themselves in a notebook: HTML, text, frames, pictures, MLflow.

The highest package: it knows every type that is shown and every library that shows it.
Values reach it by name through `sightline.showing`, only when they are asked to show
themselves.
"""

from sightline.notebook.tracking import log_to_mlflow
from sightline.notebook.views import (
    frame_of,
    html_of,
    plot_evaluation,
    plot_segment,
    summary_of,
)

__all__ = [
    "frame_of",
    "html_of",
    "log_to_mlflow",
    "plot_evaluation",
    "plot_segment",
    "summary_of",
]
