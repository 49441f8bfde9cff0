"""GDN (Deng and Hooi, 2021)."""
