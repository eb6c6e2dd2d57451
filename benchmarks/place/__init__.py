"""Benchmarks of placement: published workloads, small instances with known optimum, speed."""
