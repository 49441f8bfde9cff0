"""Your own plant: a folder with exports of its historian."""
