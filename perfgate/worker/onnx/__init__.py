"""Floor 3, worker. ONNX models as workloads: run by ONNX Runtime, fed with numpy. Never torch.

In: ``Open`` of a model whose entry is an ``.onnx`` file. Out: the same replies as for a torch model.

=============  ======================================================================
``source``     the model's files: found, proved to be the checkout's own, and read
``file``       operators and files of weights, from the bytes of the file (``protobuf``)
``sessions``   inference sessions on the device that was asked for (``faults``: in words)
``signature``  what the model takes, and whether given tensors fit
``inputs``     numpy arrays from the configuration, the user's function, or the file
``steps``      one inference as a step to time
``opening``    all of it in order: the entry of this package
``probing``    digests, files, notes
``profiling``  times of single operators, in the user's terms (``fusions``)
=============  ======================================================================
"""
