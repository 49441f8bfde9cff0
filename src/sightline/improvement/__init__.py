"""Sets what ranked attacks better on plants beside the detector at hand."""
