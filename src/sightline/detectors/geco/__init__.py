"""GeCo: each channel explained by a formula of a few others (Wolsing et al., 2025).

From the bottom up: `formulas` has the formulas, the transitions they are fitted to and
IPAL's model files; `closed_form` judges all candidates at once; `search` chooses the
best and can be interrupted; `rule` raises the alarms; `detector` combines them.
"""
