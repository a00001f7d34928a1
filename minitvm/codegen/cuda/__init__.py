"""Kernels for GPUs: the passes that lower a program for one, and the printer for numba.cuda."""

# pyright: reportUnusedImport=false

from .target import CUDA
