"""The experiments of the papers, replayed on recorded measurements."""

# pyright: reportUnusedImport=false

from .spaces import LAYERS, OTHER_MACHINE, PRODUCTS, Convolution, task
