"""Floor 3, sampling. Which sample networks to run, under which conditions, next: designs, without running anything."""
