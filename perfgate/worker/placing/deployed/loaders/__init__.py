"""Floor 3, worker. One loader for each kind of file that a piece can be. No perfgate.

Each module has ``load(file, *, device, threads, options) -> runner``. A runner has

* ``memory``: text that is equal for runners whose tensors are of one kind in one place (``torch cpu``),
* ``place(value)``: any other runner's tensor as one of its own, without a copy where that is possible,
* ``run(values)``: a list of own tensors -> a list of own tensors, in the order of the piece's inputs and outputs,
* ``wait()``: returns when all work is done,
* ``reuses``: True where the memory of results is used again by the next call.
"""
