"""Train a detector on a simulated plant, and see what it can see.

    python examples/train_detector.py [NAME]

NAME is one of `sightline detectors`; by default gdn. Rows of a minute and few epochs:
it runs in seconds, and finds what can be found that way.
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

# Labels meet the residuals here for the first time.
stream = sightline.export_stream(
    detector, plant.train, plant.test, testbed="waterworks", telemetry=True
)
sightline.write_stream(stream, f"{name}.npz")

found = sightline.evaluate(stream)
low, high = found.intervals["roc_auc"]
print(f"{stream.name}: ROC-AUC {found.rank.roc_auc:.2f} ({low:.2f} to {high:.2f})")
for segment in found.segments:
    print(f"  {segment.id}: {segment.verdict}: {segment.sentence}")
