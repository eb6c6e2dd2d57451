"""Floor 3, placement. Which operator runs on which device and compute library: searched, proven where small; pure."""
