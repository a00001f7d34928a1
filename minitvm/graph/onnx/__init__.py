"""Read networks from ONNX models; the conversions of operators are those of Keras's layers, too."""

# pyright: reportUnusedImport=false
from . import elements, linear, normal, padding, shapes, table, windows
from .convert import from_onnx
from .model import Budget, Call
from .place import Place, Scope, Value, dtype_of, shape_of
from .table import OPERATORS
