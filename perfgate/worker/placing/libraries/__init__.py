"""Floor 3, worker. Compute libraries: what each takes, how a piece is built for it. One file each."""
