"""Which elements a causal mask makes 0 in gradients of attention."""

from __future__ import annotations

import pytest

from tests.differential import patterns as p
from tests.differential.attention_steps import Step, all_copies, causal, masked, scaled
from tests.differential.runner import region
from tf_stitch.compiler.pattern_compiler import PatternCompiler
from tf_stitch.device.spec import H200
from tf_stitch.ir.copies import with_copies
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import Node, users_of
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.planning.attention_gradient import AttentionGradient
from tf_stitch.planning.find_attention_gradients import find_gradients
from tf_stitch.planning.free_nodes import live_out
from tf_stitch.planning.unseen_elements import unseen_elements

B, F32 = p.B, DType.F32


def gradients_of(step: Step) -> list[AttentionGradient]:
    graph = step.graph()
    changed, _ = with_copies(graph, all_copies(graph, PatternCompiler(H200, True)))
    nodes = changed.nodes()
    return list(find_gradients(nodes, users_of(nodes), frozenset(live_out(changed))))


@pytest.mark.parametrize(("ahead", "value"), [(0, -1e9), (5, -100.0), (-3, -1e9)])
def test_elements_of_masked_keys_are_0(ahead: int, value: float) -> None:
    found = gradients_of(Step(queries=50, keys=77, score=causal(ahead, value)))
    assert len(found) == 2
    for gradient in found:
        assert gradient.unseen is not None
        assert (gradient.unseen.mask.ahead, gradient.unseen.mask.value) == (ahead, value)
        assert gradient.unseen.most.type.dims == (2, 2, 50, 1)


@pytest.mark.parametrize("step", [
    Step(), Step(score=masked), Step(queries=50, keys=50, score=causal(), keys_first=True)])
def test_what_inputs_decide_is_not_known(step: Step) -> None:
    """Nor where queries and keys change places."""
    found = gradients_of(step)
    assert len(found) == 2
    assert all(gradient.unseen is None for gradient in found)


def elements(made_of: str) -> tuple[list[Node], Node]:
    """[queries, keys] of masked scores, and what is made of their exponentials."""
    score, most, other = (B.input(name, F32, shape) for name, shape in (("s", (9, 9)), ("m", (9, 1)), ("x", (9, 9))))
    scored, hidden = causal()(score)
    weight = B.op(OpKind.EXP, B.sub(scored(scaled(score)), most))
    made = {"product": lambda: B.mul(other, weight), "sum": lambda: B.add(other, weight),
            "hidden less": lambda: causal(3)(score)[1](other),
            "difference": lambda: B.sub(B.mul(other, weight), other), "hidden": lambda: hidden(other),
            "exponential of it": lambda: B.op(OpKind.EXP, B.mul(other, weight))}[made_of]()
    return region("elements", [weight, made]).nodes(), made


@pytest.mark.parametrize(("made_of", "known"), [("product", True), ("hidden", True), ("hidden less", False),
                                                ("sum", False), ("difference", False), ("exponential of it", False)])
def test_only_products_and_what_is_hidden_are(made_of: str, known: bool) -> None:
    nodes, made = elements(made_of)
    assert (unseen_elements(nodes, [made]) is not None) is known
