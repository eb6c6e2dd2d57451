"""Two counted graphs in, what changed from operator to operator out. Start at :func:`compare`."""

from perfgate.graph.difference.compare import compare

__all__ = ["compare"]
