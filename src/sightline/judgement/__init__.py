"""Tells whether an attack was found, why not, and how sure that is.

`sightline.judgement.judge.judge` is the entry. From below to above: ``calm`` finds
attack-free windows to compare an attack with, ``event_test`` has the one test of every
rule and score, ``verdicts`` the table of verdicts and the records of a diagnosis,
``record`` the residuals of an attack and its windows, ``ladder`` the table of the rungs
and the decision, ``confidence`` how sure a verdict is, ``sentences`` puts it into
words, and ``judge`` joins it for a stream.
"""
