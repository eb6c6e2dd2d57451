"""Floor 3. The child program: loads, counts, warms up and times a model in the *user's* interpreter.

In: requests of ``perfgate.records.protocol`` on an inherited Unix socket. Out: one reply for each.
Standard library and what a model runs in only: torch (>= 2.4), or ONNX Runtime (>= 1.18) and numpy. Python >= 3.10.
Nothing here is imported by the rest of perfgate: copies of these files are started as a program from a folder of
their own.

===============  ======================================================================
``__main__``     arguments -> role
``channel``      one JSON object a line over the socket, and file descriptors beside them
``process``      what the operating system is asked for: affinity, threads, memory peaks
``preparing``    sys.path, imports, versions, whether forking is safe
``provenance``   which files were loaded or opened, and whether they are this checkout's
``runtime``      whether ONNX Runtime is there, and its import
``factory``      forks one child a workload
``child``        the request loop of one workload
``failures``     any exception -> one ``Failed``
``session``      one opened workload, timed block by block
``opening``      a torch model becomes one; from here on torch is needed
``onnx``         an ONNX model becomes one, without torch
===============  ======================================================================
"""
