"""NSIBF (Feng and Tian, 2021)."""
