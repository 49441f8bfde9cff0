"""GDN: channels forecast each other along a learned graph (Deng and Hooi, 2021)."""
