"""Floor 3, worker. A model taken apart into nodes, timed on each compute library, and put together as a plan says."""
