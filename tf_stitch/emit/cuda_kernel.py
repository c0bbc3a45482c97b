"""CUDA C++ of one program: a device function, which launches call (emit/cuda.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tf_stitch.emit.c_family import NARROW, CFamily, Lines
from tf_stitch.emit.comments import after
from tf_stitch.errors import VerifyError
from tf_stitch.ir.op_attrs import Combine
from tf_stitch.ir.op_kinds import OpKind
from tf_stitch.ir.symbolic_dims import Atom
from tf_stitch.kernel_ir import nodes as k
from tf_stitch.kernel_ir.by_type import ByType
from tf_stitch.kernel_ir.cost import shared_bytes
from tf_stitch.kernel_ir.dependencies import awaits_itself
from tf_stitch.kernel_ir.index import Var, reach
from tf_stitch.kernel_ir.walk import arrays, indices, statements

COUNTER_WORDS = 16
"""Between the counters of group barriers: each in a cache line of its own."""

ATOMICS = "tfs_atomic_"
"""What names of functions in atomics.cu begin with."""

EARLY_LOAD, PREFETCH = "tfs_load_early", "tfs_prefetch"
"""Of early_loads.cu."""

_REDUCE = {OpKind.SUM: "tfs_sum", OpKind.PROD: "tfs_prod", OpKind.MAX: "tfs_maximum", OpKind.MIN: "tfs_minimum",
           OpKind.ANY: "tfs_any", OpKind.ALL: "tfs_all"}


def needs_wide_indices(largest: int, threads: int) -> bool:
    """Whether indices have 64 bits: none is larger than that, in this many threads, with up to 16 elements each."""
    return largest >= 1 << 31 or threads * 16 >= 1 << 31


def pointer_to(buffer: k.Buffer) -> str:
    const = "const " if buffer.mode is k.Mode.READ else ""
    return f"{const}{CudaKernel.storage[buffer.dtype]}* "


def _alone(buffer: k.Buffer) -> str:
    """A pointer through which alone its memory is reached. Within a launch: see tfs_read_late for its parameters."""
    restrict = "" if buffer.mode in (k.Mode.UPDATE, k.Mode.SCRATCH) or buffer.shared else "__restrict__ "
    return pointer_to(buffer) + restrict


class CudaKernel(CFamily):
    halves = {kind: f"tfs_{kind.value}_half({{0}})" for kind in  # noqa: RUF012  (a ClassVar of CFamily)
              (OpKind.EXP, OpKind.SIGMOID, OpKind.ERFC)}
    rules = ByType("CUDA", CFamily.rules)

    def __init__(self, program: k.Program, sizes: Mapping[Atom, str] | None = None) -> None:
        super().__init__(program)
        self.sizes.update(sizes or {})
        largest, blocks = max((b.size for b in program.buffers), default=0), max(p.grid for p in program.phases())
        largest = max(largest, *(reach(index) for stmt in statements(program.body) for index in indices(stmt)), 0)
        self.index_type = "int64_t" if needs_wide_indices(largest, blocks * program.threads) else "int"
        self._group = 1
        self.early = False  # statements are emitted that stand before dependencies are awaited
        self._packed = {a.name for a in arrays(program.body) if a.packed}

    def function(self, name: str) -> Lines:
        p = self.program
        self.early = awaits_itself(p)
        given = "_" if self.early else ""  # parameters have their own names when dependencies have ended
        body = list(self.block(p.body))
        self.size(p.grid)  # the launch needs it
        sizes = list(self.sizes.values())
        params = ", ".join(["long long block_", *(f"{_alone(b)}{b.name}{given}" for b in p.parameters),
                            *(f"long long {n}_" for n in sizes)])
        params += ", unsigned int* barrier" if p.cooperative else ""
        yield f"static __device__ __forceinline__ void {name}({params}) {{"
        yield f"  const {self.index_type} {'first_' if p.looped else ''}block = ({self.index_type})block_;"
        yield from (f"  const {self.index_type} {n} = ({self.index_type}){n}_;" for n in sizes)
        if not p.partitioned:
            yield from self._own_thread("threadIdx.x")
        for line in self.constants("static __device__ const"):
            yield "  " + line
        if shared_bytes(p):
            yield "  extern __shared__ __align__(16) unsigned char tfs_shared[];"
        yield from body
        yield f"  (void){'first_' if p.looped else ''}block;{'' if p.partitioned else ' (void)thread; (void)turn;'}"
        yield "}"

    @rules(k.AwaitDependencies)
    def _await_dependencies(self, stmt: k.AwaitDependencies) -> Lines:
        self.early = False
        yield "tfs_await_dependencies();"
        yield from (f"{_alone(b)}{b.name} = tfs_late({b.name}_);" for b in self.program.parameters)

    def expr(self, expr: k.Expr) -> str:
        if self.early and isinstance(expr, k.Load):
            element = f"{EARLY_LOAD}<1>({expr.buffer}_ + ({self.index(expr.index)})).v[0]"
            return self.from_storage(element, self.dtype_of[expr.buffer])
        if isinstance(expr, k.Element) and expr.array in self._packed:
            element = f"tfs_unpacked<{self.storage[expr.dtype]}>({expr.array}, {self.index(expr.index)})"
            return self.from_storage(element, expr.dtype)
        return super().expr(expr)

    def _own_thread(self, number: str) -> Lines:
        yield f"  const int thread = {number};"
        yield "  int turn = 0;  // which of two places in shared memory tfs_all_reduce takes next"

    def for_loop(self, stmt: k.For) -> Lines:
        name = stmt.var.name
        if stmt.loop is k.Loop.UNROLL:
            yield "#pragma unroll"
        elif stmt.loop is k.Loop.SERIAL:
            yield f"#pragma unroll {stmt.together}"
        yield f"for ({self.index_type} {name} = 0; {name} < {self.loop_end(stmt)}; ++{name}) {{"
        yield from self.block(stmt.body)
        yield "}"

    @rules(k.GridLoop)
    def _grid_loop(self, stmt: k.GridLoop) -> Lines:
        t = self.index_type
        self._group = stmt.group
        yield f"for ({t} next = first_block; next < {self.size(stmt.blocks)}; next += gridDim.x) {{"
        yield f"  const {t} block = {f'{self.size(stmt.blocks - 1)} - next' if stmt.backwards else 'next'};"
        yield from self.block(stmt.body)
        yield "  (void)block;"
        yield "}"

    @rules(k.ThreadRange)
    def _thread_range(self, stmt: k.ThreadRange) -> Lines:
        from_first = f"threadIdx.x >= {stmt.first} && " if stmt.first else ""
        yield f"if ({from_first}threadIdx.x < {stmt.first + stmt.threads} && block < {self.size(stmt.blocks)}) {{"
        yield from self._own_thread(f"threadIdx.x - {stmt.first}")
        yield from self.block(stmt.body)
        yield "  (void)thread; (void)turn;"
        yield "}"

    def array(self, stmt: k.Array) -> Lines:
        ctype = self.types[stmt.dtype.compute]
        if stmt.packed:
            yield after(f"uint32_t {stmt.name}[{stmt.nbytes // 4}];", self.note(stmt.note))
        elif stmt.offset is not None:
            yield after(f"{ctype}* {stmt.name} = ({ctype}*)(tfs_shared + {stmt.offset});", self.note(stmt.note))
        else:
            space = "__shared__ " if stmt.space is k.Space.SHARED else ""
            yield after(f"{space}{ctype} {stmt.name}[{stmt.size}];", self.note(stmt.note))
        if stmt.init is not None:
            if stmt.space is k.Space.SHARED:
                raise VerifyError("a shared array is filled by its threads, not at its declaration")
            yield "#pragma unroll"
            first = self.literal(stmt.init, stmt.dtype.compute)
            yield f"for (int i = 0; i < {stmt.size}; ++i) {stmt.name}[i] = {first};"

    @rules(k.AllReduce)
    def _all_reduce(self, stmt: k.AllReduce) -> Lines:
        kinds = ", ".join(_REDUCE[kind] for _, kind in stmt.members)
        yield (f"tfs_all_reduce<{self.barrier_type(stmt.barrier)}, {stmt.width}, {kinds}>(thread, turn, "
               f"{', '.join(name for name, _ in stmt.members)});")

    @rules(k.ArgAllReduce)
    def _arg_all_reduce(self, stmt: k.ArgAllReduce) -> Lines:
        largest = "true" if stmt.kind is OpKind.ARGMAX else "false"
        yield (f"tfs_arg_all_reduce<{self.barrier_type(stmt.barrier)}, {largest}, {stmt.width}>(thread, {stmt.best}, "
               f"{stmt.at});")

    @rules(k.Barrier)
    def _barrier(self, stmt: k.Barrier) -> Lines:
        whole = stmt.barrier == k.WHOLE_BLOCK
        yield "__syncthreads();" if whole else f"{self.barrier_type(stmt.barrier)}::wait();"

    def barrier_type(self, barrier: k.BlockBarrier) -> str:
        whole = barrier == k.WHOLE_BLOCK
        return "tfs_all_threads" if whole else f"tfs_thread_range<{barrier.id}, {barrier.threads}>"

    @rules(k.GridBarrier)
    def _grid_barrier(self, stmt: k.GridBarrier) -> Lines:
        yield "tfs_grid_barrier(barrier, gridDim.x, blockIdx.x == 0);"

    @rules(k.GroupBarrier)
    def _group_barrier(self, stmt: k.GroupBarrier) -> Lines:
        n = self._group  # each group has a counter
        yield f"tfs_grid_barrier(barrier + blockIdx.x / {n} * {COUNTER_WORDS}, {n}, blockIdx.x % {n} == 0);"

    @rules(k.Send)
    def _send(self, stmt: k.Send) -> Lines:
        yield (f"tfs_send({stmt.array} + ({self.index(stmt.index)}), {self.index(stmt.block)}, "
               f"{self.expr(stmt.value)});")

    @rules(k.ClusterStarted)
    def _cluster_started(self, stmt: k.ClusterStarted) -> Lines:
        yield "tfs_cluster_started();"

    @rules(k.ClusterBarrier)
    def _cluster_barrier(self, stmt: k.ClusterBarrier) -> Lines:
        yield "tfs_cluster_barrier();"

    @rules(k.AsyncCopy)
    def _async_copy(self, stmt: k.AsyncCopy) -> Lines:
        inside = "true" if stmt.inside is None else self.expr(stmt.inside)
        yield (f"tfs_async_copy({stmt.array} + ({self.index(stmt.at)}), "
               f"{stmt.buffer} + ({self.index(stmt.index)}), {inside});")

    @rules(k.AwaitAsyncCopies)
    def _await_async_copies(self, stmt: k.AwaitAsyncCopies) -> Lines:
        yield f"tfs_await_async_copies<{stmt.pending}>();"

    @rules(k.Prefetch)
    def _prefetch(self, stmt: k.Prefetch) -> Lines:
        yield f"{PREFETCH}({stmt.buffer}{'_' * self.early} + ({self.index(stmt.index)}));"

    @rules(k.LoadFence)
    def _load_fence(self, stmt: k.LoadFence) -> Lines:
        yield f"tfs_load_fence({', '.join(stmt.names)});"

    @rules(k.Fail)
    def _fail(self, stmt: k.Fail) -> Lines:
        """A GPU kernel cannot fail: TensorFlow's do not either."""
        return iter(())

    @rules(k.Accumulate)
    def _accumulate(self, stmt: k.Accumulate) -> Lines:
        target, value = f"{stmt.buffer}[{self.index(stmt.index)}]", self.expr(stmt.value)
        if stmt.combine is Combine.SET:  # the last thread's, whichever that is, as in TensorFlow
            yield f"{target} = {self.to_storage(value, self.dtype_of[stmt.buffer])};"
        elif half := NARROW.get(self.dtype_of[stmt.buffer]):
            yield f"{ATOMICS}{half}<{_REDUCE[OpKind(stmt.combine.value)]}>(&{target}, {value});"
        else:
            yield f"{ATOMICS}{stmt.combine.value}(&{target}, {value});"

    def closure(self, name: str, scalars: Sequence[str], position: Sequence[Var], body: Sequence[k.Stmt],
                 result: str = "") -> Lines:
        """A function of an element, or of a row, that a template calls."""
        parameters = ", ".join((*scalars, *(f"{self.index_type} {v.name}" for v in position)))
        yield f"  const auto {name} = [&]({parameters}) {{"
        yield from (f"  {line}" for line in self.block(body))
        if result:
            yield f"    return {result};"
        yield "  };"

    @rules(k.LoadVector)
    def _load_vector(self, stmt: k.LoadVector) -> Lines:
        dtype = self.dtype_of[stmt.buffer]
        vector = f"tfs_vector<{self.storage[dtype]}, {stmt.width}>"
        at = f"{stmt.buffer}{'_' * self.early} + ({self.index(stmt.index)})"
        loaded = f"{EARLY_LOAD}<{stmt.width}>({at})" if self.early else f"*(const {vector}*)({at})"
        if stmt.array in self._packed:
            yield f"tfs_pack({stmt.array}, {self.index(stmt.at)}, {loaded});"
            return
        yield f"{{ const {vector} t = {loaded};"
        yield "#pragma unroll"
        value = self.from_storage("t.v[i]", dtype)
        yield f"  for (int i = 0; i < {stmt.width}; ++i) {stmt.array}[{self.index(stmt.at)} + i] = {value}; }}"

    @rules(k.StoreVector)
    def _store_vector(self, stmt: k.StoreVector) -> Lines:
        dtype = self.dtype_of[stmt.buffer]
        vector = f"tfs_vector<{self.storage[dtype]}, {stmt.width}>"
        yield f"{{ {vector} t;"
        yield "#pragma unroll"
        if narrow := NARROW.get(dtype):
            pair = f"tfs_to_{narrow}_pair({stmt.array}[i], {stmt.array}[i + 1])"
            yield f"  for (int i = 0; i < {stmt.width}; i += 2) tfs_set_pair(t, i, {pair});"
        else:
            value = self.to_storage(f"{stmt.array}[i]", dtype)
            yield f"  for (int i = 0; i < {stmt.width}; ++i) t.v[i] = {value};"
        yield f"  *({vector}*)({stmt.buffer} + ({self.index(stmt.index)})) = t; }}"
