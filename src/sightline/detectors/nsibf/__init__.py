"""NSIBF: a neural model of the plant in a Bayesian filter (Feng and Tian, 2021)."""
