"""Well-known networks with random weights, in their real shapes, and two small trained ones."""

# pyright: reportUnusedImport=false
from . import adding
from .adding import adder
from .digits import FILE, digit_images, digits
from .other import bert, dcgan, dqn, lstm
from .residual import resnet3d18, resnet18, resnet50
from .small import mobilenet_v1, mobilenet_v2, squeezenet
