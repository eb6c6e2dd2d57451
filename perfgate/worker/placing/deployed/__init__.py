"""Floor 3, worker. What is copied into a deployed folder: it runs there without perfgate, and here to be timed."""
