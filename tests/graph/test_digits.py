"""The network for digits: what comes with the package, and that it reads the test images."""

import numpy as np

from minitvm import graph


def test_it_reads_images_that_it_was_not_trained_on() -> None:
    images, digits = graph.networks.digit_images()
    assert (images.shape, images.dtype) == ((360, 1, 8, 8), np.float32)
    assert (images.min(), images.max()) == (0, 1)
    net = graph.networks.digits(batch=len(images))
    (scores,) = graph.evaluate(net, images)
    assert (scores.argmax(1) == digits).sum() == 359


def test_weights_and_images_take_about_100_kilobytes() -> None:
    net = graph.networks.digits()
    assert sum(value.size for value in net.params.values()) < 20_500
    assert graph.networks.FILE.stat().st_size < 100_000
