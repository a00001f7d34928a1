"""finish_line(): stored times of a network, and those of this machine."""

from minitvm import course, graph, viz


def test_the_stored_times_are_those_of_the_readme() -> None:
    _, ours, theirs, layers = course.finish_line().ascii().splitlines()
    assert ours == "  minitvm, Zen 4: 17.9 ms"
    assert theirs == "  ONNX Runtime, Zen 4: 33.9 ms, 1.9 times as long"
    assert "% of it four layers of one shape" in layers


def test_a_module_shows_its_own_layers() -> None:
    net = graph.networks.resnet18(width=0.05, classes=10)
    view = course.finish_line(graph.compile(net, "llvm -num-cores=1"))
    assert isinstance(view, viz.NetworkTimes)
    assert list(view.times)[2] == "minitvm, this machine"
    assert "layer1.0.conv1" in view.times["minitvm, this machine"]
