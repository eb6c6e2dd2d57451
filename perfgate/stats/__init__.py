"""Floor 2. Pure statistics of the decision rule: pairs of samples in, decisions and intervals out.

``pairs`` turns evidence into one log ratio per pair, ``sequential`` decides from log ratios, ``spread``
asks whether head became less stable. No input or output, no clock, no randomness. ``docs/method.md``
explains the rule; only :mod:`scipy.special` is imported, because :mod:`scipy.stats` costs a process that
waits beside a measurement several times the memory.
"""
