"""Modules of torch become networks that compute the same."""

import sys

import numpy as np
import pytest

from minitvm import graph
from minitvm.base import ArgumentError, GraphError

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
# torch itself warns while it exports, of what its next release changes
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


class Calls(nn.Module):
    """A module that returns the results of functions, each of all inputs."""

    def __init__(self, *functions) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *inputs):
        return tuple(function(*inputs) for function in self.functions)


class Causal(nn.Module):
    """A decoder layer: norm, rotary positions, grouped-query attention."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(11, 32), nn.RMSNorm(32)
        self.q, self.k, self.v = nn.Linear(32, 32), nn.Linear(32, 16), nn.Linear(32, 16)

    def forward(self, words):
        x = self.norm(self.embed(words))
        batch, length, _ = x.shape
        q, k, v = (
            part(x).view(batch, length, -1, 8).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        angle = torch.arange(length)[:, None] / 10 ** (torch.arange(4) / 4)
        cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
        q, k = (x * cos + torch.cat([-x[..., 4:], x[..., :4]], -1) * sin for x in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return y.transpose(1, 2).flatten(2)


def agree(module, *inputs, tolerance: float = 1e-5) -> graph.Graph:
    """Check that the network of a module computes what torch does, and return it."""
    module = module.eval()
    net = graph.from_torch(module, inputs)
    with torch.no_grad():
        expected = map(np.asarray, torch.utils._pytree.tree_leaves(module(*inputs)))
    for y, z in zip(graph.evaluate(net, *map(np.asarray, inputs)), expected, strict=True):
        assert y.dtype == z.dtype
        np.testing.assert_allclose(y, z, rtol=0, atol=tolerance * max(1, np.abs(z).max()))
    return net


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_a_small_network_reads_as_its_modules(rng) -> None:
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Softmax(-1))
    net = graph.from_torch(module, (torch.zeros(1, 8),), name="mlp")
    assert (
        str(net)
        == """\
def mlp(input: float32[1, 8]):
  x0_weight = param("0.weight", float32[16, 8])
  x0_bias = param("0.bias", float32[16])
  dense_1 = dense(input, x0_weight, x0_bias)  # float32[1, 16]
  relu_1 = relu(dense_1)  # float32[1, 16]
  x2_weight = param("2.weight", float32[4, 16])
  x2_bias = param("2.bias", float32[4])
  dense_2 = dense(relu_1, x2_weight, x2_bias)  # float32[1, 4]
  softmax_1 = softmax(dense_2)  # float32[1, 4]
  return softmax_1"""
    )
    assert [node.name for node in net.calls] == ["0", "1", "2", "3"]
    assert np.shares_memory(net.params["0.weight"], module[0].weight.detach().numpy())
    assert all(part.training for part in module.modules())
    x = rng.standard_normal((1, 8), np.float32)
    y = graph.compile(net)(x)
    np.testing.assert_allclose(y, module(torch.from_numpy(x)).detach(), rtol=1e-5)


def test_elements() -> None:
    x, y = torch.randn(3, 4), torch.randn(4)
    n = torch.tensor([[1], [2], [0]])
    agree(
        Calls(
            lambda x, y, n: torch.add(x, y, alpha=2) - 3 * y,
            lambda x, y, n: (1 - x) / (2 + y.abs()),
            lambda x, y, n: x + n,
            lambda x, y, n: n / 2 + n * 2,
            lambda x, y, n: n * n - 1,
            lambda x, y, n: (x > y) & ~(x <= 0) | (n != 1),
            lambda x, y, n: (n == 2).logical_or(x.lt(0)).logical_and(y.ge(0)),
            lambda x, y, n: torch.where(x > 0, x, 0.5) + x.masked_fill(x > 0, -1.0),
            lambda x, y, n: x**2 + x**3 + x.abs() ** 0.5 + x.exp() ** y,
            lambda x, y, n: x.clamp(-0.5) + x.clamp(max=0.25) + x.clamp(-1, 1),
            lambda x, y, n: torch.minimum(torch.maximum(x, y), x.clamp(min=y)),
            lambda x, y, n: x.abs().reciprocal() + x.abs().rsqrt() + x.erf() + x.abs().log(),
            lambda x, y, n: F.relu(x) + F.relu6(4 * x) + F.silu(x) + F.hardtanh(x, -0.5, 0.5),
            lambda x, y, n: F.gelu(x) + F.gelu(x, approximate="tanh"),
            lambda x, y, n: F.hardswish(4 * x) + F.hardsigmoid(4 * x) + F.leaky_relu(x, 0.2),
            lambda x, y, n: F.elu(x) + F.selu(x) + F.celu(x, 0.5) + F.mish(x) + F.softplus(x),
            lambda x, y, n: F.prelu(x, y[0]) + F.dropout(x, training=False) + torch.tanh(x),
            lambda x, y, n: n.float() + n.to(torch.float32) + x.sigmoid() - x.neg(),
        ),
        x,
        y,
        n,
    )


def test_shapes() -> None:
    x, n = torch.randn(2, 3, 8), torch.tensor([[2, 0], [1, -1]])
    agree(
        Calls(
            lambda x, n: x.reshape(6, -1).view(2, 3, 2, 4).permute(0, 2, 1, 3).contiguous(),
            lambda x, n: x.transpose(-1, 1).flatten(1),
            lambda x, n: x[:, 1] + x[:, -1, :].unsqueeze(0).squeeze(0),
            lambda x, n: x[:, ::2, 2:-1],
            lambda x, n: x[..., None].expand(2, 3, 8, 5).squeeze(),
            lambda x, n: torch.cat([x, x[:, :1]], 1),
            lambda x, n: torch.stack([x, 2 * x], -1),
            lambda x, n: torch.cat(x.chunk(3, -1)[::2], -1),
            lambda x, n: sum(part.sum() for part in x.split([3, 5], -1)),
            lambda x, n: x.unbind(1)[2],
            lambda x, n: x.flip(1, -1).repeat(2, 1, 3),
            lambda x, n: torch.roll(x, 2, -1),
            lambda x, n: F.pad(x, (1, 2, 0, 3), value=0.5),
            lambda x, n: F.embedding(n.abs(), x[0]),
            lambda x, n: x[:, n],
            lambda x, n: x.index_select(1, torch.tensor([2, 1])),
            lambda x, n: F.pixel_shuffle(x.reshape(1, 12, 2, 2), 2),
        ),
        x,
        n,
    )


def test_products_sums_and_norms() -> None:
    x, w = torch.randn(2, 6, 8), torch.randn(5, 8)
    agree(
        Calls(
            lambda x, w: F.linear(x, w, w[:, 0]) + x @ w.T,
            lambda x, w: x.bmm(x.mT) + torch.baddbmm(x[:, :, :6], x, x.mT, beta=2, alpha=0.5),
            lambda x, w: torch.addmm(w[0], x[0], w.T @ w) + x[0] @ w[0][:, None],
            lambda x, w: x[None] @ x.mT[:, None],
            lambda x, w: x.mean(1) + x.sum((0, 1)) + x.amax(1) - x.amin(1),
            lambda x, w: x.mean() + x.sum(-1, keepdim=True) + x.prod(-1).mean(),
            lambda x, w: x.var(1) + x.std(1, correction=0) + x.var((0, 1)),
            lambda x, w: (x > 0).sum(),
            lambda x, w: x.norm(dim=-1) + torch.linalg.vector_norm(x, 1, -1),
            lambda x, w: x.softmax(-1) + x.log_softmax(1) + F.normalize(x, dim=-1),
            lambda x, w: F.layer_norm(x, (6, 8)) + F.layer_norm(x, (8,), w[0], w[1]),
            lambda x, w: F.rms_norm(x, (8,), w[0]) + F.rms_norm(x, (8,), eps=1e-3),
            lambda x, w: F.group_norm(x, 3, x[0, :, 0], x[1, :, 0]) + F.instance_norm(x),
            lambda x, w: F.scaled_dot_product_attention(x, x, x, is_causal=True),
            lambda x, w: F.scaled_dot_product_attention(x, x, x, x[:, :, :6] > -1, scale=0.5),
            lambda x, w: F.scaled_dot_product_attention(x, x, x, x[:, :, :6]),
        ),
        x,
        w,
    )


def test_windows() -> None:
    x, w = torch.randn(2, 4, 11, 12), torch.randn(8, 2, 3, 3)
    agree(
        Calls(
            lambda x, w: F.conv2d(x, w, w[:, 0, 0, 0], 2, 1, 1, 2),
            lambda x, w: F.conv2d(x, w, None, 1, "same", 2, 2),
            lambda x, w: F.conv1d(x[:, :, 0], w[:, :, 0], None, 2, 1, 1, 2),
            lambda x, w: F.conv3d(x[:, None], w[:1, None, :2]),
            lambda x, w: F.conv_transpose2d(x, w[:4], None, 2, 1, 1),
            lambda x, w: F.conv_transpose1d(x[:, :, 0], w[:4, :, 0], w[0, :, 0, 0]),
            lambda x, w: F.max_pool2d(x, 3, 2, 1) + F.max_pool2d(x, (3, 3), 2, 1),
            lambda x, w: F.max_pool2d(x, 2, ceil_mode=True),
            lambda x, w: F.max_pool1d(x[0], 2) + F.avg_pool1d(x[0], 2),
            lambda x, w: F.avg_pool2d(x, 3, 2, 1) + F.avg_pool2d(x, 3, 2, 1, False, False),
            lambda x, w: F.adaptive_avg_pool2d(x, 1) + x.mean((2, 3), keepdim=True),
            lambda x, w: F.adaptive_avg_pool2d(x[:, :, :10], (5, 4)),
            lambda x, w: F.adaptive_avg_pool2d(x, (7, 13)),
            lambda x, w: F.adaptive_max_pool2d(x[:, :, :10], (5, 4)),
            lambda x, w: F.batch_norm(x, w[:4, 0, 0, 0], w[:4, 0, 0, 1] ** 2),
        ),
        x,
        w,
    )


def test_a_decoder_layer_and_recurrent_layers() -> None:
    net = agree(Causal(), torch.tensor([[3, 1, 4, 1, 5, 9]]))
    assert "sin" not in str(net)  # the angles depend on constants alone
    agree(nn.GRU(4, 6, batch_first=True, bidirectional=True), torch.randn(2, 3, 4))
    agree(nn.LSTM(4, 6), torch.randn(3, 2, 4))


@pytest.mark.parametrize(
    "module",
    [
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2),
        lambda: nn.Sequential(nn.Conv1d(8, 4, 3, bias=False), nn.BatchNorm1d(4), nn.PReLU(4)),
        lambda: nn.MultiheadAttention(16, 4, batch_first=True),
    ],
    ids=["encoder", "batch_norm", "attention"],
)
def test_modules(module) -> None:
    x = torch.randn(2, 8, 16)
    made = module()
    agree(made, *([x] * (3 if isinstance(made, nn.MultiheadAttention) else 1)))


@pytest.mark.parametrize("rows", [1, 2])
def test_rows_are_written_into_a_cache(rows: int) -> None:
    cache, new = torch.randn(2, 3, 5, 4), torch.randn(2, 3, rows, 4)
    write = Calls(lambda cache, new, at: cache.index_copy(2, at + torch.arange(rows), new))
    net = agree(write, cache, new, torch.tensor([3]))
    assert "cache_update(" in str(net)
    write = Calls(lambda cache, new, at: cache.index_copy(2, at * torch.arange(1, 3), new))
    with pytest.raises(GraphError, match="it copies 2 rows"):
        graph.from_torch(write, (cache, torch.randn(2, 3, 2, 4), torch.tensor([2])))


@pytest.mark.parametrize(("words", "is_dynamic"), [(2, False), (2, True)])
def test_a_position_outside_of_the_cache_is_refused(words: int, is_dynamic: bool) -> None:
    def make(rows: int) -> graph.Graph:
        write = Calls(lambda cache, new, at: cache.index_copy(2, at + torch.arange(rows), new))
        inputs = torch.ones(2, 3, 9, 4), torch.ones(2, 3, rows, 4), torch.tensor([0])
        return graph.from_torch(write, inputs)

    if is_dynamic:
        module = graph.compile_dynamic(make, "python", typical=2)
    else:
        module = graph.compile(make(words), "python")
    arrays = np.zeros((2, 3, 9, 4), np.float32), np.ones((2, 3, words, 4), np.float32)
    assert module(*arrays, np.array([8])).sum() == 2 * 3 * 4  # a second row is left out
    for position in (-1, 9, 40):
        with pytest.raises(ArgumentError, match=f"values from {position} .* they are from 0 to 8"):
            module(*arrays, np.array([position]))


@pytest.mark.parametrize(("queries", "words"), [(1, 1), (3, 3), (3, 1)])
@pytest.mark.parametrize("shift", [0, 1])
def test_attention_reads_the_keys_of_a_cache_that_its_mask_shows(
    queries: int, words: int, shift: int
) -> None:
    def attend(q, k, v, new, at):
        rows = at + torch.arange(words)
        k, v = k.index_copy(2, rows, new), v.index_copy(2, rows, new)
        mask = torch.arange(shift, 9 + shift) <= rows[:, None]  # one row is that of all queries
        return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)

    shapes = (2, 4, queries, 8), (2, 2, 9, 8), (2, 2, 9, 8), (2, 2, words, 8)
    net = agree(Calls(attend), *map(torch.randn, shapes), torch.tensor([4]))
    assert ("cached_attention(" in str(net)) == (shift == 0 and queries == words)


def test_numbers_among_the_inputs_are_constants() -> None:
    module = Calls(lambda x, k: x * k)
    net = graph.from_torch(module, (torch.ones(2), 3))
    assert len(net.inputs) == 1
    np.testing.assert_array_equal(*graph.evaluate(net, np.ones(2, np.float32)), [3, 3])


def test_outputs_may_be_inputs_and_constants() -> None:
    agree(Calls(lambda x: x, lambda x: torch.arange(3) * 2, lambda x: x + 1), torch.ones(2))


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += 1
        return x + self.count


@pytest.mark.parametrize(
    ("module", "inputs", "told"),
    [
        (lambda: Calls(lambda x: x.sort().values), (torch.ones(3),),
         r"node 'sort' \(sort\): graphs do not have this operator \(test_torch.py line \d+: "),
        (lambda: nn.Sequential(Calls(lambda x: x.median())), (torch.ones(3),),
         r"node 'median' \(median\) of module '0': graphs do not have this operator"),
        (lambda: Calls(lambda x: x.half() * 2, lambda x: x.to(torch.complex64) * 2),
         (torch.ones(3),), "complex64"),
        (lambda: Calls(lambda x: x + torch.rand(3)), (torch.ones(3),), "it draws random numbers"),
        (lambda: Calls(lambda x: x if x.sum() > 0 else -x), (torch.ones(3),),
         "torch.export cannot export it: "),
        (lambda: Calls(lambda x: x / 0.0 @ "no"), (torch.ones(3),), "cannot export it: TypeError"),
        (Counter, (torch.ones(1),), "it changes 'count': a network keeps no state"),
        (lambda: nn.Linear(3, 2), torch.ones(3), "its inputs are Tensor, not a tuple of tensors"),
        (lambda: "resnet18", (torch.ones(3),), "str is not a torch.nn.Module"),
    ],
    ids=["operator", "module", "dtype", "random", "control", "error", "state", "args",
         "kind"],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_a_reason(module, inputs, told) -> None:
    with pytest.raises(GraphError, match=told):
        graph.from_torch(module(), inputs)


def test_without_torch_the_error_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(GraphError, match=r"pip install 'minitvm\[torch\]'"):
        graph.from_torch(nn.ReLU(), (torch.ones(1),))


NETWORKS = {
    "convnext_tiny": 64,
    "densenet121": 64,
    "efficientnet_b0": 64,
    "googlenet": 64,
    "mnasnet0_5": 64,
    "mobilenet_v2": 64,
    "mobilenet_v3_small": 64,
    "regnet_y_400mf": 64,
    "resnet18": 64,
    "shufflenet_v2_x0_5": 64,
    "squeezenet1_1": 64,
    "swin_t": 64,
    "vgg11_bn": 32,
    "vit_b_16": 224,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_torchvision(name: str) -> None:
    models = pytest.importorskip("torchvision").models
    module = models.get_model(name, weights=None, num_classes=10)
    if name == "vit_b_16":
        nn.init.normal_(module.heads.head.weight)  # it is zero
    module = module.eval()
    x = torch.randn(1, 3, NETWORKS[name], NETWORKS[name])
    net = graph.from_torch(module, (x,))
    with torch.no_grad():
        expected = module(x).numpy()
    y = graph.compile(net)(x.numpy())
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
