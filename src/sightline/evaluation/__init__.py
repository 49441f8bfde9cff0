"""From a residual stream to everything that is measured on its energy."""
