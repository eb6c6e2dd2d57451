"""Floor 2, roofline. Kernels and a machine's pi and beta in; ridge, bounds and times out. Pure arithmetic."""
