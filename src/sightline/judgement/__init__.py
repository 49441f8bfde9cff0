"""Tells whether an attack was found, why not, and how sure that is.

`sightline.judgement.judge.judge` is the entry. From below to above: ``event_test``
finds attack-free windows to compare an attack with and has the one test of every rule
and score, ``verdicts`` the table of verdicts and the records of a diagnosis, ``record``
the residuals of an attack and its windows, ``ladder`` the table of the rungs, the
decision and how sure it is, and ``judge`` joins it for a stream and puts it into words,
beside the paper's reading of each attack.
"""
