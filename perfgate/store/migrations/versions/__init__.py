"""Room ``store``: the schemas, oldest first. Each has a tiny database in ``tests/store/data``."""
