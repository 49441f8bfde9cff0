"""A user's own plant: a folder with historian exports."""
