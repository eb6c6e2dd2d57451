"""What is known of each operator: its kind, its FLOP, and what it moves where that is not plainly all of it."""
