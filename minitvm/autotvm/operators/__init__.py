"""Templates of operators, and tasks of them by name and shape: `task_for("matmul", (512, 512, 512))`."""

# pyright: reportUnusedImport=false

from .convolutions import conv2d_nchwc, conv2d_nhwc
from .products import dense, matmul
from .rows import softmax, sum_rows
from .windows import depthwise_nhwc
