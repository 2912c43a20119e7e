"""Networks as ONNX: what `nets.py` and `methods/views.py` compute, from raw observations on, in float32.

The only file that knows the format. Numbers are put in as they are, none is multiplied into another beforehand, so that
sums and products are JAX's own and only their order may differ.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from wanderlust.errors import UserError
from wanderlust.methods import View
from wanderlust.rl.nets import LOG_STD_RANGE, MLP, Policy
from wanderlust.rl.sac import ACTIVATIONS

if TYPE_CHECKING:
    import onnx

OPSET = 17
IR_VERSION = 8
"""Both of 2022 (ONNX 1.12): the networks need nothing newer, and older runtimes on robots read them."""

_OPERATORS = {"tanh": "Tanh", "relu": "Relu"}
"""What ONNX calls the activations of `sac.ACTIVATIONS`."""


def policy_model(policy: Policy, view: View, about: str) -> bytes:
    """pi(a|s, z): (observation, skill) -> (action, mean, log_std); the action is the mode, tanh of the mean."""
    layers = policy.mlp.layers
    seen, actions = view.spec.obs_dim, layers[-1].bias.shape[0] // 2
    graph = _Graph()
    scale = np.ones(seen, np.float32)
    scale[list(view.spec.position)] = 0.0 if view.variant.endswith("o") else 1.0 / view.position_scale
    obs = graph.add("Mul", _normalised(graph, view), graph.constant("scale", scale))
    head = _mlp(graph, policy.mlp, graph.add("Concat", obs, "skill", axis=1))
    graph.add("Slice", head, *graph.span(0, actions), to="mean")
    unbounded = graph.add("Slice", head, *graph.span(actions, 2 * actions))
    graph.add("Clip", unbounded, *(graph.constant(f"number_{x:g}", x) for x in LOG_STD_RANGE), to="log_std")
    graph.add("Tanh", "mean", to="action")
    skills = layers[0].weight.shape[0] - seen
    outputs = dict.fromkeys(("action", "mean", "log_std"), actions)
    return graph.finished("policy", {"observation": seen, "skill": skills}, outputs, about)


def phi_model(network: MLP, view: View, about: str) -> bytes:
    """phi(s): observation -> phi."""
    graph = _Graph()
    obs = "observation" if view.method_sees_raw else _normalised(graph, view)
    if view.method_entries is not None:
        obs = graph.add("Gather", obs, graph.constant("seen", view.method_entries, np.int64), axis=1)
    _mlp(graph, network, obs, to="phi")
    codes = network.layers[-1].bias.shape[0]
    return graph.finished("phi", {"observation": view.spec.obs_dim}, {"phi": codes}, about)


def _normalised(graph: "_Graph", view: View) -> str:
    centred = graph.add("Sub", "observation", graph.constant("mean_of_observations", view.spec.obs_mean))
    return graph.add("Div", centred, graph.constant("std_of_observations", view.spec.obs_std))


def _mlp(graph: "_Graph", mlp: MLP, x: str, to: str = "") -> str:
    names = [_OPERATORS[name] for name, activation in ACTIVATIONS.items() if activation is mlp.activation]
    if not names or mlp.layer_norm:
        raise UserError("this network has an activation or a normalisation that cannot be exported yet")
    last = len(mlp.layers) - 1
    for i, layer in enumerate(mlp.layers):
        weight, bias = graph.constant(f"weight_{i}", layer.weight), graph.constant(f"bias_{i}", layer.bias)
        x = graph.add("Gemm", x, weight, bias, to=to if i == last else "")
        x = x if i == last else graph.add(names[0], x)
    return x


class _Graph:
    """A graph as it grows. What a node gives is called by its number, unless it is an output."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def add(self, operator: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        """A node; the name of what it gives."""
        from onnx import helper

        name = to or f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, name: str, values: ArrayLike, kind: type = np.float32) -> str:
        """Numbers in float32, whatever they were stored in; or in int64, as places of entries."""
        from onnx import numpy_helper

        self._constants[name] = numpy_helper.from_array(np.asarray(values, kind), name)
        return name

    def span(self, begin: int, end: int) -> tuple[str, str, str]:
        """Columns from `begin` up to `end`, as Slice wants them: starts, ends, axes."""
        places = {f"at_{begin}": begin, f"at_{end}": end, "columns": 1}
        starts, ends, axes = (self.constant(name, [place], np.int64) for name, place in places.items())
        return starts, ends, axes

    def finished(self, name: str, inputs: Mapping[str, int], outputs: Mapping[str, int], about: str) -> bytes:
        """The model, for batches of any size, checked by ONNX."""
        import onnx
        from onnx import TensorProto, helper

        def batches(sizes: Mapping[str, int]) -> list[onnx.ValueInfoProto]:
            return [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", size]) for n, size in sizes.items()]

        constants = list(self._constants.values())
        graph = helper.make_graph(self._nodes, name, batches(inputs), batches(outputs), constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        model.producer_name, model.doc_string = "wanderlust", about
        onnx.checker.check_model(model, full_check=True)
        return model.SerializeToString(deterministic=True)
