"""Networks of the detectors: torch modules whose tensors bear the published names.

A state dictionary of the official code loads as it is; importing this needs torch.
"""
