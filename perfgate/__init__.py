"""perfgate gates pull requests on the speed and cost of deep-learning models.

This package imports nothing: the worker (:mod:`perfgate.worker`) runs in the user's
interpreter, where none of perfgate's own dependencies may be needed.
"""

__version__ = "0.1.0"
