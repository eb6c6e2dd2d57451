"""Tables of the cost part: Pareto sets, speed, fleet plans, the catalogue, and rankings against real measurements.

Each module prints one table (``python -m benchmarks.cost.NAME``), ``python -m benchmarks.cost`` all of them.
"""
