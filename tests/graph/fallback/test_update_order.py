"""The order in which a region's own nodes update variables."""

from __future__ import annotations

from tensorflow.core.framework.node_def_pb2 import NodeDef

from tf_stitch.graph.fallback.update_order import update_early


def node(name: str, op: str, *inputs: str) -> NodeDef:
    return NodeDef(name=name, op=op, input=inputs)


def backward(layers: int) -> list[NodeDef]:
    """Gradients of a stack of matmuls, all of them before the first update, as a graph may list them."""
    nodes = [node("d0", "Relu", "tfs_i0:0")]
    for i in range(layers):
        nodes += [node(f"gradient{i}", "MatMul", f"d{i}:0", "tfs_i1:0"), node(f"d{i + 1}", "MatMul", f"d{i}:0")]
    for i in range(layers):
        nodes += [node(f"read{i}", "ReadVariableOp", f"tfs_v{i}:0"),
                  node(f"first{i}", "AssignAddVariableOp", f"tfs_v{layers + i}:0", f"gradient{i}:0"),
                  node(f"step{i}", "Mul", f"gradient{i}:0", f"read{i}:0", f"^first{i}"),
                  node(f"update{i}", "AssignSubVariableOp", f"tfs_v{i}:0", f"step{i}:0")]  # fmt: skip
    return [*nodes, node("loss", "Sum", f"d{layers}:0")]


def run_order(nodes: list[NodeDef]) -> list[str]:
    """The only order that is left, constants aside."""
    inputs = {n.name: {i.removeprefix("^").partition(":")[0] for i in n.input} for n in nodes}
    left, done = dict(inputs), list[str]()
    while left:
        ready = [name for name, needs in left.items() if not any(p in left for p in needs)]
        assert len(ready) == 1, f"{ready} could run next"
        done.append(ready[0])
        del left[ready[0]]
    return done


def test_gradients_are_used_up_one_by_one() -> None:
    nodes = backward(5)
    update_early(nodes)
    order = run_order(nodes)
    for i in range(4):
        assert order.index(f"update{i}") < order.index(f"gradient{i + 1}")
    assert order[-1] == "loss"


def test_edges_stay_data_before_controls() -> None:
    nodes = backward(3)
    before = {n.name: list(n.input) for n in nodes}
    update_early(nodes)
    for n in nodes:
        assert n.input[:len(before[n.name])] == before[n.name]
        assert all(i.startswith("^") for i in n.input[len(before[n.name]):])


def test_a_graph_without_updates_is_left_alone() -> None:
    nodes = [node("a", "Relu", "tfs_i0:0"), node("b", "Exp", "a:0"), node("c", "Tanh", "a:0")]
    update_early(nodes)
    assert [list(n.input) for n in nodes] == [["tfs_i0:0"], ["a:0"], ["a:0"]]


def test_a_norm_over_all_gradients_keeps_every_update_behind_it() -> None:
    nodes = backward(6)
    nodes.append(node("norm", "AddN", *(f"gradient{i}:0" for i in range(6))))
    for n in nodes:
        if n.op == "Mul":
            n.input.insert(2, "norm:0")
    update_early(nodes)
    order = run_order(nodes)
    assert all(order.index("norm") < order.index(f"update{i}") for i in range(6))


def test_an_update_waits_for_who_uses_the_old_value() -> None:
    """The matmul that hands the gradient on reads the weights: an update before it would need other memory."""
    nodes = backward(5)
    for i in range(5):
        handed_on = next(n for n in nodes if n.name == f"d{i + 1}")
        handed_on.input.append(f"read{i}:0")
    update_early(nodes)
    order = run_order(nodes)
    for i in range(5):
        assert order.index(f"d{i + 1}") < order.index(f"update{i}")
    for i in range(3):
        assert order.index(f"update{i}") < order.index(f"gradient{i + 2}")
