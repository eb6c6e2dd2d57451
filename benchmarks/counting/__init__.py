"""Tables of what perfgate counts: against published figures, other counters, model collections, ONNX, and the clock.

Each module prints one table (``python -m benchmarks.counting.NAME``), ``python -m benchmarks.counting`` all of them.
``ours`` counts with perfgate, ``zoo`` builds the models, ``apart`` runs other people's code in a process of its own.
"""
