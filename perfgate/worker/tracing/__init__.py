"""Floor 3, worker. From one step of a model to its trace.

In: a model and its step. Out: ``records.graph.Trace``.

Start at :func:`trace` (an opened workload), :func:`trace_callable` (a plain call) or ``building.count`` (a model that
is built without weights). All three describe an ``attempt.Job``, and ``run`` traces it. Map:

* ``run``: on which kind of tensors. ``attempt``: on one kind, after which the model is as it was (``standin``,
  ``substitutes``, ``backups``). ``roots`` finds the modules, ``mixing`` lets tensors with and without contents work
  together, ``compiler`` keeps torch's compiler away.
* ``tracer``: one operator call. ``kinds`` says what counts as one, ``arguments``, ``packing`` and ``higher`` what it
  was given, ``values`` which tensors these are and what memory they need, ``places`` in which module and phase,
  ``groups`` in which composite call.
* ``building``: a model without weights.
"""

from perfgate.worker.tracing.callables import trace_callable
from perfgate.worker.tracing.requests import trace

__all__ = ["trace", "trace_callable"]
