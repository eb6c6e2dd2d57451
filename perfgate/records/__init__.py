"""Floor 1. The frozen types that travel between rooms; no behaviour beyond simple properties.

Units are in the names: ``latency_ns``, ``peak_bytes``, ``flop``, ``usd_per_hour``. Dicts are
used only for open key sets (metric name -> value) and never changed after construction.

=================  ===========================================================
module             what it holds
=================  ===========================================================
``workload``       what is measured: a model's specification and its workloads
``policy``         what is decided: limits, modes, looks, acceptances
``metrics``        the registry of metrics: kind, unit, direction
``protocol``       messages between bench (parent) and worker (child)
``evidence``       measurements.json: raw samples and facts, no verdicts
``report``         report.json: verdicts, derived from evidence by pure code
``baseline``       one immutable row of the baseline database
=================  ===========================================================
"""
