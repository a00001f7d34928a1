"""Read networks from ONNX models. Keras layers are converted by the same functions."""

# pyright: reportUnusedImport=false
from . import elements, linear, normal, padding, shapes, table, windows
from .convert import from_onnx
from .model import Budget, Call
from .place import Place, Scope, Value, dtype_of, shape_of
from .table import OPERATORS
