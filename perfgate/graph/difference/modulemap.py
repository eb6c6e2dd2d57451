"""Floor 3, graph. Which module of base is which module of head, whatever they are called.

In: operators that were found to be the same. Out: a map of module paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class ModuleMap:
    """Module paths of head in terms of base, by the votes of matched operators.

    An operator in ``layer3.0.conv2`` that is ``backbone.stage3.0.conv2`` on head also votes for the containers,
    counted from the inside: ``layer3.0`` is ``backbone.stage3.0``, and the model itself is ``backbone``.
    """

    def __init__(self, pairs: Iterable[tuple[str, str]], base: Iterable[str] = ()) -> None:
        votes: Counter[tuple[str, str]] = Counter()
        for (one, other), count in Counter(pairs).items():
            for voted in _containers(one, other):
                votes[voted] += count
        self._to_head: dict[str, str] = {}
        self._to_base: dict[str, str] = {}
        # Equal names win a tie, then the alphabet: the same map in every run.
        order = sorted(votes.items(), key=lambda item: (-item[1], item[0][0] != item[0][1], item[0]))
        for (one, other), _ in order:
            if one not in self._to_head and other not in self._to_base:
                self._to_head[one] = other
                self._to_base[other] = one
        for path in base:
            if path not in self._to_head and path not in self._to_base:
                self._to_head[path] = path
                self._to_base[path] = path

    def head(self, module: str) -> str | None:
        """Path on head of a module of base; None where no operator tells."""
        return self._to_head.get(module)

    def base(self, module: str) -> str | None:
        """Path on base of a module of head; None where no operator tells."""
        return self._to_base.get(module)


def _containers(one: str, other: str) -> Iterable[tuple[str, str]]:
    """The two modules, then their containers pairwise as far as one of them has any."""
    yield one, other
    while one and other:
        one, other = one.rpartition(".")[0], other.rpartition(".")[0]
        yield one, other
