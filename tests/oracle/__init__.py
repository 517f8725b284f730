"""Independent second computation of the inference numbers, in plain Python."""
