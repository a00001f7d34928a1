"""Networks: a graph of operators, rewritten step by step and compiled to one function."""

# pyright: reportUnusedImport=false
from minitvm.runtime import load_network as load

from . import frontend, networks, passes, torch
from .builder import Builder
from .comparison import random_inputs
from .compile import build, compile
from .costs import A100, Cost, CycleCost, MachineCost, MeasuredCost
from .counts import Counts, bytes_moved, counts, operators_of
from .dynamic import compile_dynamic
from .evaluate import evaluate
from .explain import Decision, Decisions, explain
from .kernels import Pick
from .node import KERNEL, Graph, Node, TensorType
from .onnx import from_onnx
from .operators import OPERATORS, Fusion, Operator
from .parse import parse
from .passes import bfloat16_weights, int8_weights
from .pipeline import PASSES, Pass, optimized
from .plan import Plan, live_bytes, naive_bytes, offset_plan, own_plan, pool_plan
from .quantise import QuantisationError, TensorError, quantisation_error, quantise
from .search import Searched, Step, search
from .substitutions import RULES, Match, Rule
from .tasks import GraphTask, Tasks, extract_tasks
from .torch import from_torch
from .tune import Tuned, tune
