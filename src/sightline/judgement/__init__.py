"""Why was an attack missed? Each repair is carried out on the same stream.

`sightline.judgement.judge.diagnose` is the entry. From below to above: ``verdicts`` has
the table of verdicts and the records of a diagnosis, ``calm`` compares an attack with
attack-free windows, ``subspaces`` and ``refit`` score the residuals in other ways,
``evidence`` gathers all that for one stream, ``ladder`` has the table of the rungs and
the decision, ``sentences`` puts it into words, and ``judge`` measures the repairs.
"""
