"""Models that the counting benchmarks build, as ``module:callable`` of a worker: nothing here needs perfgate.

A callable takes no argument, so what a model is built from stands in its name (see each module's ``__getattr__``).
"""
