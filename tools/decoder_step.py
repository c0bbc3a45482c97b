"""TRIAL, not to be merged: a step of the transformer's decoder at batch 1, products as sums, as CUDA graph nodes."""
import sys
from pathlib import Path
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
from tf_stitch.device.spec import H200
from tf_stitch.ir.builder import Builder
from tf_stitch.ir.dtypes import DType
from tf_stitch.ir.graph import TensorGraph
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.arguments import arguments_of
from tf_stitch.pattern_compiler import PatternCompiler
from tf_stitch.pipeline import CompileOptions, compile_region
from tf_stitch.planning.planner import PlanOptions
from tf_stitch.runtime.kernel_cache import KernelCache
from tf_stitch.runtime.nvrtc_builder import build_cuda
PatternCompiler.beats_call = lambda self, p, w: True


def decoder(layers, vocab, width=512, heads=8, hidden=2048, longest=64, mem=27, dt=DType.F32):
    B = Builder()
    I = lambda n, *s: B.input(n, dt, s)
    d = width // heads
    dense = lambda x, name, i, o: B.add(B.reshape(B.dot(B.reshape(x, (1, i)), I(name + "w", i, o)), (1, 1, o)), I(name + "b", o))
    split = lambda x: B.transpose(B.reshape(x, (1, 1, heads, d)), (0, 2, 1, 3))
    def norm(x, name):
        n = B.extent((width,), dt)
        c = B.sub(x, B.div(B.reshape(B.sum(x, [2]), (1, 1, 1)), n))
        var = B.div(B.reshape(B.sum(B.mul(c, c), [2]), (1, 1, 1)), n)
        r = B.op(OpKind.RSQRT, B.add(var, B.constant(1e-6, dt)))
        return B.add(B.mul(B.mul(c, r), B.reshape(I(name + "g", width), (1, 1, width))), B.reshape(I(name + "s", width), (1, 1, width)))
    def softmax(x):
        e = B.exp(B.sub(x, B.reshape(B.reduce(OpKind.MAX, x, [3]), (1, heads, 1, 1))))
        return B.div(e, B.reshape(B.sum(e, [3]), (1, heads, 1, 1)))
    def attend(x, k, v, bias, name):
        q = B.mul(split(dense(x, name + "q", width, width)), B.constant(d**-.5, dt))
        w = softmax(B.add(B.dot(q, k, False, True), bias))
        return dense(B.reshape(B.transpose(B.dot(w, v), (0, 2, 1, 3)), (1, 1, width)), name + "o", width, width)
    x, here, outs = I("x", 1, 1, width), I("here", longest, 1), []
    for layer in range(layers):
        n = f"l{layer}"
        k, v = (B.add(I(n + "c" + z, 1, heads, longest, d), B.mul(split(dense(x, n + z, width, width)), here)) for z in "kv")
        outs += [k, v]
        x = norm(B.add(x, attend(x, k, v, I("ob", longest), n + "self")), n + "n0")
        x = norm(B.add(x, attend(x, I(n + "mk", 1, heads, mem, d), I(n + "mv", 1, heads, mem, d), I("mb", mem), n + "cross")), n + "n1")
        h = B.maximum(dense(x, n + "up", width, hidden), B.constant(0, dt))
        x = norm(B.add(x, dense(h, n + "down", hidden, width)), n + "n2")
    if vocab:
        outs.append(B.arg_reduce(OpKind.ARGMAX, B.dot(B.reshape(x, (1, width)), I("emb", vocab, width), False, True), 1, DType.I32))
    return TensorGraph("decode", [(f"o{i}", o) for i, o in enumerate([*outs, x])])


cache = KernelCache(Path("~/.cache/tf_stitch/thin_products").expanduser())
for layers, vocab, barriers in ((1, 0, True), (1, 0, False), (6, 30000, True), (0, 30000, True)):
    graph = decoder(layers, vocab)
    inputs, variables = arguments_of(graph)
    region = compile_region(graph, inputs, variables, CompileOptions(H200, PlanOptions("greedy", barriers=barriers)))
    cubin = build_cuda(region.source, "90", cache)
    print(layers, vocab, barriers, len(region.executable.steps), "steps", flush=True)
    if "--build_only" in sys.argv:
        continue
    import cupy
    from small_kernels import node_us
    from tf_stitch.runtime.device_run import DeviceExecutable
    types = {n.attrs.key: n.type for n in graph.inputs()}
    memory = {k: cupy.random.standard_normal(types[k].dims, dtype=cupy.float32) * cupy.float32(.05) for k in inputs}
    run = DeviceExecutable(region.executable, cubin, memory, {})
    print("   us:", [round(node_us(run, nodes=20), 2) for _ in range(3)], flush=True)
