"""The operators of neural networks under TVM's names, such as topi.nn.relu."""

from .conv import conv2d, conv2d_nchw
from .conv_nd import conv1d, conv2d_transpose, conv3d
from .depthwise import depthwise_conv2d
from .elementwise import leaky_relu, relu
from .linear import batch_matmul, dense
from .norm import batch_norm, layer_norm, log_softmax, softmax
from .pool import avg_pool2d, global_avg_pool2d, max_pool2d
from .shape import pad
from .winograd import conv2d_winograd

__all__ = [
    "avg_pool2d", "batch_matmul", "batch_norm", "conv1d", "conv2d", "conv2d_nchw",
    "conv2d_transpose", "conv2d_winograd", "conv3d", "dense", "depthwise_conv2d",
    "global_avg_pool2d", "layer_norm",
    "leaky_relu", "log_softmax", "max_pool2d", "pad", "relu", "softmax",
]  # fmt: skip
