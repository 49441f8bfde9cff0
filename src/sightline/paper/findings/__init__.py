"""The findings of the paper, each tested on a study."""
