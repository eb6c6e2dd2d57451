"""ONNX files in, traces out; the only place that imports ``onnx``."""
