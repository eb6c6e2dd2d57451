"""Floor 2, hardware. What can be rented or owned: platforms, their names, and dated prices. Facts, no decisions."""
