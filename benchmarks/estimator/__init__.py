"""Tables of the estimator: whole models, siblings, new hardware, operators, sampling from nothing, and speed.

Each module prints one table (``python -m benchmarks.estimator.NAME``), ``python -m benchmarks.estimator`` all of them.
"""
