"""All widgets. Each can be shown live, as SVG, as PNG and as text.

    viz.NestPlayer(s, [A, B, C])      step through a schedule, drag its loops, watch their order
    viz.TripleView(s, [A, B, C])      formula, loops and code side by side, linked
    viz.ManyPrograms({"a": s, ...})    one formula, and what its schedules make of it
    viz.IndexLens(C)                  which elements of its inputs each element of C reads
    viz.PassExplorer(s, [A, B, C])    the program before and after each lowering pass
    viz.CacheLens(s, [A, B, C])       the program's accesses in a simulated cache, one by one
    viz.RooflineDot({"a": s, ...})    schedules as dots under a roofline
    viz.TimingLab({"a": f, "b": g}, args)   which function is faster: interleaved measurements
    viz.ComputeAtSlider(s, B, C)      a stage at each loop of its consumer: storage, work, locality
    viz.TokenGantt(program)           the accelerator's units over time: tokens, waiting, races
    viz.AcceleratorView(program)      the accelerator's memories, instruction by instruction
    viz.GridView(f)                   a simulated GPU: blocks, threads, sectors, banks, races
    viz.LayerRoofline(rows), viz.StallWaterfall(program), viz.OverlapBars(rows),
    viz.AmdahlBar(works)              what latency hiding gains, and what limits it
    viz.TuningCurve(search)           a search while it runs: trials, the best so far, failures
    viz.SpaceMap(task, trials)        two knobs against speed; where a tuner has looked
    viz.EvolutionView(task, generations)   the population of a search: scores, parents, children
    viz.ModelLens(knobs, rows, measured, predict)   a cost model: its order, its worst pairs
    viz.TransferLab(curves, sources, targets)   how many trials the history of a task saves
    viz.SketchTree(task)              how rules derive the sketches of a computation
    viz.TaskAllocation(scheduler)     which task of several gets the rounds, and what that gains
    viz.GraphStepper(net)             a network before and after each pass, and what it saves
    viz.SearchPath(graph.search(net))   the substitutions that make a network cheaper, step by step
    viz.MemoryPlan(net)               the tensors of a network in time and memory: three plans
    viz.TokenQueues(), viz.MemoryOrder()   drawings: queues of tokens, an image in three layouts
    viz.LayoutCut(net), viz.Dominators(net)   why images have their layouts, and kernels their parts
    viz.ScoreBars({"yours": 64, ...}, unit)   one number of several answers
    viz.NetworkTimes({"minitvm": {"conv1": 1e-3, ...}})   a network's time, split by its layers
    viz.Dependences(3, 5, (1, -1))    two loops before and after a swap: arrows that turn red
    viz.CacheSets(cache, {"rows of 128": 512}, 32)   how a stride fills the sets of a cache
    viz.RowLives({"root": s}, A, C)   when the rows of a stage are computed, kept, computed again
    viz.PackedBlocks()                a matrix and its memory, before and after packing
    viz.Diagram(title, parts, flows, kinds)   the parts of a system, and what flows between them
    viz.LedgerChart(rows, layer, stored_on)   what each notebook gains for one layer

To write another widget: a picture is data, and pure functions draw it.

    scene = Scene(200, 60, (Rect(10, 10, 80, 24, "parallel", key="i"),
                            Text(16, 27, "i", ink("parallel"))), title="one loop")
    svg(scene), png(scene)            equal scenes give equal bytes; the PNG has twice the size
    marked(scene, {"i": "now"})       the same picture, with the shapes of key "i" in kind "now"
    page(title, [svg(scene), table(rows)])   a report as one HTML file, light or dark

Shapes are Rect, Circle, Line, Polygon, Text and Group. The `kind` of a shape decides how it looks;
it is a name in KINDS (serial, parallel, read, write, seen, axis, orange, pale_blue, ...). Text on
the fill of a kind takes ink(kind), which is readable in the dark theme too. If a colour has a
meaning, a letter, a hatch or a dash repeats it.

The widgets here place few shapes by hand. Each is a Figure, whose body is a box: boxes.py arranges
text, frames and legends in rows and columns, plot.py draws marks (marks.py) on axes. A Live figure
watches work in a thread; a Stepper walks through passes.

nest_of(schedule, state or lowered program) returns a Nest of Blocks; nest_scene draws it and
nest_ascii prints it. order_of(body) returns Ticks; grids_of and order_frames show them.

A widget is a subclass of Visual with three pure methods, and one that handles events:

    class Dot(Visual):
        def __init__(self, radius=10):
            self.radius = radius
            super().__init__()                       # last: it draws

        def scene(self):  return Scene(100, 100, (Circle(50, 50, self.radius, "blue"),), "a dot")
        def ascii(self):  return f"dot of radius {self.radius}"
        def layout(self): return Layout(controls=(Slider("r", "radius", 1, 40, self.radius),))
        def on(self, name, value):                   # a control, "click" or "drag"
            self.radius = value                      # the slider has checked it

Layout also has frames (each gives kinds to some keys and has a caption; the browser plays frames
without the kernel), links (keys that light up together), panels of code, and the keys that can be
selected and dragged. A TVMError raised in `on` is shown as a message. Any thread may call
`refresh()` to redraw after a change made outside `on`; a test calls `event(name, value)` to
simulate a click. `picture()` is the scene for SVG, PNG and saved notebooks, without controls.

is_live() says whether widgets are live here. show_live_or_stored(model_id, stored, about) shows a
live view and what a saved notebook shows instead; live_only and stored_only choose among outputs.
"""
# pyright: reportUnusedImport=false

from .accelerator import AcceleratorView
from .amdahl_bar import AmdahlBar
from .blocks import Block, Nest, nest_of
from .cache_lens import CacheLens
from .cache_run import CacheRun, cache_run, cached_lines, totals
from .cache_sets import CacheSets
from .chart import number_text
from .compute_at import ComputeAtSlider
from .controls import (
    Button,
    CodeLine,
    Control,
    Frame,
    Layout,
    Panel,
    Select,
    Slider,
    TextInput,
    Toggle,
)
from .dependences import Dependences
from .diagram import Diagram
from .evolution_view import EvolutionView
from .gantt import TokenGantt
from .graph_maps import Dominators, LayoutCut
from .graph_stepper import GraphStepper
from .grid_view import GridView
from .grids import Grid, grids_of, order_frames
from .index_lens import IndexLens
from .kinds import COLOURS, KINDS, Kind, contrast, ink
from .layer_roofline import LayerRoofline
from .layers_rows import (
    CORTEX_A9,
    Amdahl,
    Cpu,
    LayerRow,
    NetworkPart,
    amdahl,
    cycle_parts,
    layer_row,
)
from .ledger_chart import LedgerChart, LedgerRow
from .many_programs import ManyPrograms
from .memory_order import MemoryOrder
from .memory_plan import MemoryPlan
from .model_lens import ModelLens
from .nest import nest_ascii, nest_scene
from .network_times import NetworkTimes
from .order import Order, Tick, order_of
from .overlap_bars import OverlapBars
from .packed_blocks import PackedBlocks
from .page import page, table
from .pareto_front import ParetoFront
from .pass_explorer import PassExplorer
from .player import NestPlayer
from .png import png
from .reads import Reads, footprint, reads_of
from .roofline import Dot, Machine, RooflineDot
from .roofline_scene import Point, roofline_scene
from .row_lives import RowLives
from .scene import (
    Circle,
    Group,
    Line,
    Polygon,
    Rect,
    Scene,
    Shape,
    Text,
    clipped,
    folded_code,
    keys_of,
    marked,
    shifted,
    text_width,
    wrapped,
)
from .score_bars import ScoreBars
from .search_path import SearchPath
from .shares_scene import shares_scene
from .sketch_tree import SketchTree
from .space_map import SpaceMap
from .stall_waterfall import StallWaterfall
from .stored import (
    is_live,
    live_only,
    live_view,
    show_in_notebook,
    show_live_or_stored,
    stored_only,
)
from .svg import svg
from .task_allocation import TaskAllocation
from .timing_lab import TimingLab
from .timings import Speedup, TimedRun, compare_times
from .token_queues import TokenQueues
from .transfer_lab import TransferLab
from .triple import TripleView
from .tuning_curve import TuningCurve
from .visual import Visual
