"""Networks: a graph of operators, rewritten step by step and compiled to one function."""

# pyright: reportUnusedImport=false
from minitvm.runtime import load_network as load

from . import frontend, networks
from .builder import Builder
from .compile import build, compile
from .evaluate import evaluate
from .node import Graph, Node, TensorType
from .operators import OPERATORS, Fusion, Operator
from .parse import parse
from .pipeline import PASSES, optimized
from .plan import Plan, live_bytes, naive_bytes, offset_plan, pool_plan
from .tasks import GraphTask, Tasks, extract_tasks
