"""Cells with tasks to search, and a measurer that compiles nothing."""

TASKS = """
import time
import numpy as np
from minitvm import auto_scheduler, te, tune
from minitvm.schedule import Split

def double(number):
    A = te.placeholder((64, 64), name="A")
    C = te.compute((64, 64), lambda i, j: A[i, j] * 2.0, name="C")
    knobs = tune.split_knob("tile_i", 64, 2), tune.split_knob("tile_j", 64, 2)
    steps = Split("C", "i", 8), Split("C", "j", 8)
    parameters = tune.Parameter(0, "factor", ((0, 1),)), tune.Parameter(1, "factor", ((1, 1),))
    state = te.create_schedule(C.op).state
    sketch = tune.Sketch("tiles", (A, C), state, steps, parameters, tune.Space(knobs))
    return tune.Task("double", (64, number), tvm.Target("llvm"), (A, C), 64.0**2, (sketch,))

class Told:
    reference_cost = 2e-7

    def __init__(self, pause=0.0):
        self.pause = pause

    def measure(self, programs):
        for n, _ in enumerate(programs):
            time.sleep(self.pause)
            yield tune.Result((1e-6 / (1 + n % 7),))

    def remeasure(self, programs, rounds=10):
        return [tune.Result((1e-7,)) for _ in programs] + [tune.Result((2e-7,))]
"""

CURVE = f"""{TASKS}
task = double(64)
policy = tune.RandomPolicy(task, np.random.default_rng(0))
search = tune.Search(task, policy, trials=49, batch=8, measurer=Told(0.05))
viz.TuningCurve(search)
"""

SCHEDULER = f"""{TASKS}
def scheduler(pause):
    return auto_scheduler.TaskScheduler(
        [double(n) for n in (64, 65, 66)], [4, 1, 2], policy=tune.RandomPolicy,
        measurers=lambda task: Told(pause), rng=np.random.default_rng(0),
    )
"""

EVOLUTION = """
from minitvm import auto_scheduler, tune
task = auto_scheduler.SearchTask("GMM", (1, 64, 64, 64), target="llvm -num-cores=1")
found, few = [], tune.Evolution(population=256, fewest=16)
tune.GuidedPolicy(task, np.random.default_rng(0), evolution=few, watch=found.append).propose(4)
display(viz.SketchTree(task), viz.EvolutionView(task, found))
"""

MODELS = """
rows = [[tile, order] for tile in range(4) for order in range(2)]
def predict(rows):
    return [tile - 0.5 * order for tile, order in rows]
def curves(source, target):
    slow = np.linspace(0.1, 1.0, 40)
    return {"no history": [slow, slow / 1.1], f"history of {source}": [np.sqrt(slow)]}
display(
    viz.ModelLens({"tile": (1, 2, 4, 8), "order": ("ij", "ji")}, rows, np.linspace(0, 1, 8),
                  predict, lambda row: {"elements": 16 * 2 ** row[0]}),
    viz.TransferLab(curves, ["C1", "C2"], ["C7", "C8"]),
)
"""
