"""Train a detector on a simulated plant and evaluate it.

    python examples/train_detector.py [NAME]

NAME is one of `sightline detectors`; by default gdn. With rows of a minute and few
epochs it runs in seconds; longer training detects more.
"""

import sys

import sightline

name = sys.argv[1] if len(sys.argv) > 1 else "gdn"
plant = sightline.open_testbed("waterworks", quick=True, seed=1)

settings = {"every": 60, "seed": 0}
if name in ("gdn", "fusagnet", "tranad"):
    settings["epochs"] = 3
detector = sightline.make_detector(name, **settings)
detector.fit(plant.train)
detector.save(f"{name}-detector.npz")

# Only now are the residuals joined with the labels.
stream = sightline.export_stream(
    detector, plant.train, plant.test, testbed="waterworks", telemetry=True
)
sightline.write_stream(stream, f"{name}.npz")

evaluation = sightline.evaluate(stream)
low, high = evaluation.intervals["roc_auc"]
roc_auc = evaluation.rank.roc_auc
print(f"{stream.name}: ROC-AUC {roc_auc:.2f} ({low:.2f} to {high:.2f})")
for segment in evaluation.segments:
    print(f"  {segment.id}: {segment.verdict}: {segment.sentence}")
