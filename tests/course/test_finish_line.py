"""finish_line(): stored times of a network, and those of this machine."""

from minitvm import course, graph, viz


def test_the_stored_times_are_those_of_the_readme() -> None:
    lines = course.finish_line().ascii().splitlines()
    assert lines[1] == "  minitvm: 17.9 ms"
    assert lines[2] == "  ONNX Runtime: 33.9 ms, 1.9 times as long"
    assert lines[3].endswith("% of the time of minitvm")


def test_a_module_adds_a_bar_for_this_machine() -> None:
    net = graph.networks.resnet18(width=0.05, classes=10)
    view = course.finish_line(graph.compile(net, "llvm -num-cores=1"))
    assert isinstance(view, viz.NetworkTimes)
    assert list(view.times)[2] == "minitvm, this machine"
    assert "layer1.0.conv1" in view.times["minitvm, this machine"]
    assert view.svg().count("this machine") >= 1
