"""Floor 3, worker. A question to the parent. No torch.

In: files that are not there yet. Out: :class:`Needed`, which becomes the reply.
"""

from __future__ import annotations

from perfgate.records.placing import Wanted


class Needed(Exception):  # noqa: N818 - a question, no error
    """The parent has to write files before this goes on."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        super().__init__(wanted.source)
