"""Models that the benchmarks of cost trace in worker processes."""
