"""The experiments of the papers, replayed on recorded measurements.

records = papers.recorded("C9")                                    2,000 measured configurations
speeds = papers.search(records, papers.SEARCHERS["random"], trials=250, seed=0)
papers.trials_to(speeds, 0.95)                                     trials until 95 % of the best

python benchmarks/papers.py all      draws the figures again, each beside the paper's claim
"""

# pyright: reportUnusedImport=false

from . import loop_tree, treegru
from .models import Ensemble, NoHistory, expected_improvement, forest, global_model, transferred
from .recorded import ENCODINGS, Encoding, Recorded, recorded
from .searchers import PLAN, SEARCHERS, Searcher, UniformGATuner, annealed, search, trials_to
from .spaces import LAYERS, OTHER_MACHINE, PRODUCTS, WINOGRAD, Convolution, task
from .transfer import SOURCES, history, inverted, with_history
from .treegru import TreeGRU, Weights, load_treegru
