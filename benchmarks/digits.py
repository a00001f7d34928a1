"""Train the network of minitvm.graph.networks.digits on the digits of scikit-learn.

    python benchmarks/digits.py            train, and print the accuracy on the test images
    python benchmarks/digits.py --write    also store weights and test images in digits.npz

Needs torch and scikit-learn. A fifth of the 1,797 images are kept for the test. Training images are
moved by up to one pixel and get noise, so that the network does not learn them by heart. Two runs
on one machine give the same weights.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from minitvm.graph import networks

FILE = Path(networks.__file__).with_name("digits.npz")
WHITE = 16  # the brightest value of a pixel
TEST = 360
EPOCHS, BATCH, RATE, DECAY = 60, 64, 3e-3, 1e-4
NOISE = 0.1


class Block(nn.Module):
    """Two 3x3 convolutions and the shortcut around them, with torchvision's names."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = nn.Sequential()
        if stride > 1 or inputs != channels:
            conv = nn.Conv2d(inputs, channels, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the images after the block."""
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.downsample(x))


class Network(nn.Module):
    """The network of minitvm.graph.networks.digits, with the same names of parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16, 1))
        self.layer2 = nn.Sequential(Block(16, 32, 2))
        self.fc = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of the ten digits for images [batch, 1, 8, 8]."""
        x = self.layer2(self.layer1(torch.relu(self.bn1(self.conv1(x)))))
        return self.fc(x.mean((2, 3)))


def varied(images: torch.Tensor) -> torch.Tensor:
    """Move a batch of images by up to one pixel, and add noise."""
    down, right = (int(n) for n in torch.randint(-1, 2, (2,)))
    moved = nn.functional.pad(images, (1, 1, 1, 1))[
        :, :, 1 + down : 9 + down, 1 + right : 9 + right
    ]
    return moved + NOISE * torch.randn_like(moved)


def trained(images: torch.Tensor, labels: torch.Tensor) -> Network:
    """Return a network trained on these images."""
    net = Network()
    optimiser = torch.optim.AdamW(net.parameters(), RATE, weight_decay=DECAY)
    steps = EPOCHS * -(-len(images) // BATCH)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, steps)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(images)).split(BATCH):
            loss = nn.functional.cross_entropy(net(varied(images[rows])), labels[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            rates.step()
    return net.eval()


def main() -> None:
    """Train, test, and store the result if asked to."""
    parser = argparse.ArgumentParser(description="Train the network for digits.")
    parser.add_argument("--write", action="store_true", help=f"store {FILE.name}")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    pixels = pixels.reshape(-1, 8, 8).astype(np.uint8)
    sets = train_test_split(pixels, digits, test_size=TEST, random_state=0, stratify=digits)
    train, test, train_digits, test_digits = sets
    images, others = (torch.tensor(x[:, None] / WHITE, dtype=torch.float32) for x in (train, test))
    net = trained(images, torch.tensor(train_digits))
    with torch.no_grad():
        right = net(others).argmax(1).numpy() == test_digits
    print(f"{right.sum()} of {len(right)} test images right ({right.mean():.1%})")
    if flags.write:
        state = {k: v.numpy() for k, v in net.state_dict().items() if "num_batches" not in k}
        examples = {"test.pixels": test, "test.digits": test_digits.astype(np.uint8)}
        np.savez_compressed(FILE, **state, **examples)
        print(f"{FILE.name}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
