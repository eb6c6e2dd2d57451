"""Floor 3, worker. Sample networks: built from a few numbers, stepped, and traced.

In: ``Sample``. Out: ``Sampled``. Start at :func:`sampling.sample`; ``families`` lists which file builds what, and
``perfgate/sampling/work.py`` knows the sizes of the same networks without torch.
"""
