"""Studies: detectors x testbeds x seeds, resumable, on one machine or on a cluster."""

from sightline.study.collect import Study
from sightline.study.plan import StudyPlan, plan_of, read_plan
from sightline.study.run import run_study

__all__ = ["Study", "StudyPlan", "plan_of", "read_plan", "run_study"]
