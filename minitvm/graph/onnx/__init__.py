"""Read networks from ONNX models."""

# pyright: reportUnusedImport=false
from .convert import from_onnx
from .table import OPERATORS
