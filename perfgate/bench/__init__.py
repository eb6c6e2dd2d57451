"""Floor 3. The parent side of measuring: revisions' checkouts in, raw evidence out; no verdict is made here.

Start reading at :class:`perfgate.bench.session.Session`. Nothing in this room prints.

=============  =======================================================================
module         what it does
=============  =======================================================================
``session``    the context manager that owns all workers of a run
``task``       what is asked for: sides, options, works
``rounds``     which pair is measured next, and when to stop (pure; ports for effects)
``course``     the state of one workload: pairs, voids, losses, how it ended (pure)
``blocks``     the length and order of timed blocks, and the timing of one pair
``laboratory`` pairs from real workers: factories, forks, fresh starts
``probing``    the facts of each side without timing
``sampling``   sample workloads: N + 1 steps of one condition after the other
``workers``    one factory, one child: requests, replies, deaths in words
``channel``    one JSON object a line over a socket pair, with a deadline and a length cap
``process``    process trees: start, stop, continue, CPU time, kill
``shim``       the folder and the environment that a worker sees
``telemetry``  clocks, throttle reasons, energy, foreign processes of the GPUs in use
``nvml``       the seam to NVIDIA's management library
``machine``    what this runner is, and what else runs on it
``locks``      one gate at a time on a machine or a GPU
``progress``   where to say how far it is
=============  =======================================================================
"""
