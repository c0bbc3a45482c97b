"""Typed wrappers of the native op's C exports.

An executable travels from Python to the op as int64 words: placement.executable_format has the table.

A loop is the attribute `roles` of StitchWhile; others have the numbers of three regions (`region`, the loop as a whole,
`body` and `condition`) and the types of the body's `results`. It says what inputs are in iteration i, counted from 0,
and what the op's outputs are after n:

    [inputs of the body, role of each, inputs of the condition, role of each, outputs, role of each]

    input:  [0, a]          the op's input a
            [1, a, j]       input a if i = 0, else result j of the body in iteration i - 1
            [2, a, way]     a row of input a
    output: [0, a, j]       result j of the last iteration; input a if n = 0
            [1, j, a, way]  results j of all iterations as rows: as many as input a says (int32; rows that no iteration
                            writes are zeros), n if a is -1
            [2, j, a, way]  results j of all iterations in place of rows of input a
    way:    0               row i
            1               row (rows - 1 - i)
            2 + k           the row whose number is input k of the body (an int32 scalar, itself in no such row); of the
                            body's inputs, and where an input says how many rows there are

A loop on a GPU is `split`. Then `host_inputs` are more inputs of the op, in host memory. Among these, counted from 0,
are those that say how many rows there are. The region `host` (-1: none) is a body, too, with `host_roles` and
`host_results`, which runs on the host beside the other: its roles name host_inputs, and its inputs number the rows of
both. It has no outputs. With `condition_on_host` the condition is there, and its roles are among `host_roles`.

What is read or left in one iteration has the same shape in all. Where that does not hold, or a row is not there, the
loop's own nodes run.

A key is [flags, then rank and dims of every input, then of every variable's value]; flag bit 0 says that every data
pointer is a multiple of 64 bytes, bits 1 and 2 that TensorFlow allows TF32 and asks for determinism (GPU).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from tf_stitch.errors import BuildInterruptedError, BuildPending, NativeError
from tf_stitch.interruption import Interrupted, end_loops_by, interruptible
from tf_stitch.native.build import STITCH_OP, build_library
from tf_stitch.native.fallback_call import FallbackCall
from tf_stitch.native.first_copy import serving_copy
from tf_stitch.native.signatures import (
    BUILD_CALLBACK,
    FALLBACK_CALLBACK,
    FALLBACK_SUBGRAPH_CALLBACK,
    GRAPHS_CALLBACK,
    LABELS_CALLBACK,
    LEFT_CALLBACK,
    NOT_TIMED_CALLBACK,
    REASON_CALLBACK,
    RECALL_CALLBACK,
    SETTLE_CALLBACK,
    SHAPES_CALLBACK,
    SMALLER_CALLBACK,
    declare,
)

SHADOW_SHARE = 0.02
"""A program may lose this share of its time to the check, at any moment."""
UNLIMITED = 1e9
"""A share that lets the check time whatever helps it to decide."""
SERIES_APART = 0.5
"""Seconds. Simulated, of a region of 0.5 ms and a machine that disturbs one of the forms for 0.3 s at a time: one of
eight that are faster by a tenth was given up after 30 pairs in a row, one of a hundred after six series of five."""


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes that a device's allocator has handed out, and that it may hand out at most; 0 and 0 where it does not
    know, as TensorFlow's on CPUs by default."""

    in_use: int = 0
    limit: int = 0

    @property
    def free(self) -> int:
        """Bytes that are left."""
        return max(0, self.limit - self.in_use)


BuildFunction = Callable[[int, int, tuple[int, ...], DeviceMemory], Sequence[int] | None]
FallbackBytesFunction = Callable[[int, int, tuple[int, ...]], int]
FallbackSubgraphFunction = Callable[[int, str], bytes | None]
FallbackFunction = Callable[[int, FallbackCall], None]
LabelsFunction = Callable[[int, int, tuple[int, ...]], Mapping[int, str]]
LeftFunction = Callable[[int], None]
SmallerFunction = Callable[[int, int, tuple[int, ...], int | None], Sequence[int]]

_INTERNAL = 13  # absl's status code
_PENDING, _INTERRUPTED = 3, 5  # callbacks.h
_STITCHED, _FALLBACK = 101, 102  # callbacks.h
IN_TURNS = -1
"""As native/op/profitability_check.h has it."""


@dataclass(frozen=True)
class Verdict:
    """What timing a region's two forms has led to, for one shape signature.

    Attributes:
        prefers_fallback: whether the region's own TensorFlow nodes are faster than its kernels.
        stitched_us, fallback_us: medians of the timed calls.
        from_call: the number of a region's call, from 1, from which it holds; kernels run before. IN_TURNS: in every
            other call, for tests.
        pairs: of timed calls, one of each form, that this rests on.
    """

    prefers_fallback: bool
    stitched_us: float
    fallback_us: float
    from_call: int = 0
    pairs: int = 0


class Verdicts(Protocol):
    """Keeps what was measured. Arguments of calls are those of a build."""

    def recall(self, region: int, device: int, key: tuple[int, ...]) -> Verdict | None:
        """Which form runs; None: that has to be measured."""

    def settle(self, region: int, device: int, key: tuple[int, ...], measured: Verdict, call: int) -> Verdict:
        """Which form runs. `call` is the number of the region's next call."""

    def not_timed(self, region: int, reason: str) -> None:
        """The region's own nodes could not be timed: the kernels stay."""


@dataclass(frozen=True)
class GraphRecord:
    """CUDA graphs of one region on one device.

    Attributes:
        device: CUDA ordinal.
        graphs: made, one an executable at a time.
        instances: made of them: one for each set of addresses, up to a few.
        making_ns: nanoseconds that the host spent making both.
        launches: of instances.
        host_ns: nanoseconds that the host spent finding, updating and launching them.
        known: launches of an instance that had all addresses already.
        known_ns: nanoseconds that the host spent on these.
        updates: steps that got new addresses.
        programmatic: edges of the graphs by which a kernel is started beside the one it depends on.
        refused: graphs made without such edges, because none could be made with them.
        given_up: graphs destroyed for those of other executables of the region.
        failures: executables whose steps are launched one by one because no graph could be made of them.
        error: of the last failure or refusal.
    """

    region: int
    device: int
    graphs: int
    instances: int
    making_ns: int
    launches: int
    host_ns: int
    known: int
    known_ns: int
    updates: int
    programmatic: int
    refused: int
    given_up: int
    failures: int
    error: str


@dataclass(frozen=True)
class ShapeRecord:
    """What a region of a converted model has done for one shape.

    Attributes:
        model: its folder.
        region: its number in the model.
        shape: of its inputs and variables, as "[32,128] [128]".
        runs: by its kernels; fallbacks: by its own TensorFlow nodes.
    """

    model: str
    region: int
    shape: str
    runs: int
    fallbacks: int


class OpLibrary:
    """The loaded op library.

    Attributes:
        raw_ops: TensorFlow's generated module with `stitch_op`, `stitch_state_op` and `stitch_while`.
        callers_executor: whether functions may ask for the executor `plugin.callers_executor.EXECUTOR`: where
            TensorFlow holds the one of a single thread that ours is made of.
    """

    def __init__(self, path: Path, raw_ops: ModuleType) -> None:
        self.path = path
        self.raw_ops = raw_ops
        self._library = declare(ctypes.CDLL(str(path)))
        self.callers_executor = bool(self._library.tfs_callers_executor())
        end_loops_by(self._library.tfs_interrupt_loops)
        self._callbacks: tuple[Any, ...] = ()  # ctypes frees a callback that nobody holds

    def set_callbacks(self, build: BuildFunction, fallback_subgraph: FallbackSubgraphFunction,
                      fallback: FallbackFunction, verdicts: Verdicts | None = None,
                      labels: LabelsFunction | None = None, left: LeftFunction | None = None, token: int = 0,
                      fallback_bytes: FallbackBytesFunction | None = None,
                      smaller: SmallerFunction | None = None) -> None:
        """Installs what the op calls, on any thread, when it has no executable or cannot run it.

        `build(region, device, key, memory)` returns an executable's words, or None for "use the fallback", or raises
        BuildPending to be asked again a little later, or BuildInterruptedError to be asked again a few times, half a
        second later at first. Any other exception in it counts as None; its message is FallbackCall.reason, as is that
        of an interruption. Ctrl-C ends `build` (see tf_stitch.interruption), which is asked again a little later.

        `fallback_subgraph(region, reason)` is called before a region's own TensorFlow nodes run in place of its
        kernels, once per reason ("": they are timed). It returns a serialized FunctionDef from the op's inputs and
        variables to its outputs, which runs natively from then on, or None for "use the fallback"; an exception in it
        counts as None. An exception in `fallback` fails the user's step with its message.

        `verdicts` is asked for each signature that is built, and told what was measured; without it each region of
        each process measures for itself. `labels(region, device, key)` says what a profiler is to call the steps of an
        executable, by their numbers; it is asked when a profiler is first there, and an exception in it counts as no
        names. `left(region)` is told, a little later, that on some device the last kernel is gone that ran a region.

        `fallback_bytes(region, device, key)` says how many bytes the region's own nodes have alive at once, 0 if that
        is unknown. It is asked about each executable; nodes are timed only where twice as much is free.

        `smaller(region, device, key, free)` is asked where there was no memory for an executable's kernels, of which
        none has run. It returns the words of one that takes less, and is asked again if that does not fit either; an
        exception in it says that there is none, and its message what the region would need: that is added to
        TensorFlow's error. `free`: bytes that the allocator may still hand out, None if it does not know.

        Nodes name regions with `token`, unless it is 0: graphs that come from elsewhere do not know it.
        """
        library = self._library

        def on_build(region: int, device: int, key: Any, n: int, in_use: int, limit: int, result: int) -> int:
            try:
                with interruptible():
                    words = build(region, device, tuple(key[:n]), DeviceMemory(in_use, limit))
                if words is None:
                    return 1
                if fallback_bytes is not None:
                    library.tfs_result_fallback_bytes(result, fallback_bytes(region, device, tuple(key[:n])))
                array = (ctypes.c_int64 * len(words))(*words)
                library.tfs_result_set(result, array, len(words))
                return 0
            except (BuildPending, Interrupted):
                return _PENDING
            except BuildInterruptedError as error:
                library.tfs_result_error(result, str(error).encode(errors="replace"))
                return _INTERRUPTED
            except Exception as error:  # cannot cross C++; the op calls `fallback` with this reason
                library.tfs_result_error(result, _message(error))
                return 2

        def on_smaller(region: int, device: int, key: Any, n: int, free: int, result: int) -> int:
            assert smaller is not None
            try:
                with interruptible():
                    words = smaller(region, device, tuple(key[:n]), None if free < 0 else free)
                library.tfs_result_set(result, (ctypes.c_int64 * len(words))(*words), len(words))
                return 0
            except Interrupted:
                return _PENDING
            except Exception as error:  # cannot cross C++; the region's own nodes run, or meet the same
                library.tfs_result_error(result, str(error).encode(errors="replace"))
                return 1

        def on_fallback_subgraph(region: int, reason: bytes, result: int) -> int:
            try:
                function = fallback_subgraph(region, reason.decode(errors="replace"))
            except Exception:  # cannot cross C++; the fallback that follows meets what is wrong, and says it
                return 2
            if function is None:
                return 1
            library.tfs_fallback_subgraph_set(result, function, len(function))
            return 0

        def on_fallback(region: int, handle: int) -> int:
            try:
                fallback(region, FallbackCall(library, handle))
                return 0
            except Exception as error:  # becomes the message of the user's TensorFlow error
                library.tfs_call_error(handle, *_status(error))
                return 1

        def on_labels(region: int, device: int, key: Any, n: int, result: int) -> None:
            try:
                named = labels(region, device, tuple(key[:n])) if labels is not None else {}
            except Exception:  # cannot cross C++; the kernels are right all the same
                return
            for step, text in named.items():
                library.tfs_label_set(result, step, text.encode())

        callbacks = (BUILD_CALLBACK(on_build), FALLBACK_SUBGRAPH_CALLBACK(on_fallback_subgraph),
                     FALLBACK_CALLBACK(on_fallback), *_verdict_callbacks(verdicts), LABELS_CALLBACK(on_labels),
                     LEFT_CALLBACK() if left is None else LEFT_CALLBACK(left),
                     SMALLER_CALLBACK() if smaller is None else SMALLER_CALLBACK(on_smaller))
        library.tfs_require_token(token)
        library.tfs_set_callbacks(*callbacks)
        self._callbacks += callbacks  # kept for good: another thread may be inside an older one

    def clear_callbacks(self) -> None:
        """Keeps the op out of Python from now on; waits up to 5 s for threads that are inside."""
        self._library.tfs_set_callbacks(BUILD_CALLBACK(), FALLBACK_SUBGRAPH_CALLBACK(), FALLBACK_CALLBACK(),
                                        *_verdict_callbacks(None), LABELS_CALLBACK(), LEFT_CALLBACK(),
                                        SMALLER_CALLBACK())

    def hold(self, handles: Sequence[Any], first: int) -> bool:
        """Numbers handles of variables of one device from `first` on, for the StitchHandle nodes of functions. Not, and
        False, if one is of something else, or of a variable that can go while there are handles of it."""
        return bool(self.raw_ops.stitch_hold(handles=handles, first=first))

    def release(self, first: int, count: int) -> None:
        """The function that held `count` handles from number `first` on is gone."""
        self._library.tfs_release_handles(first, count)

    def restrict_modules(self, folders: Sequence[Path]) -> None:
        """Converted models get their kernels from now on only if their files are in these folders, or in those of
        earlier calls."""
        self._library.tfs_restrict_modules("\n".join(map(str, folders)).encode())

    def stats(self) -> dict[str, int]:
        """Counts since the process started: executable runs, key misses, builds and fallback runs."""
        names = ("runs", "misses", "builds", "fallbacks")
        return {name: int(self._library.tfs_stat(i)) for i, name in enumerate(names)}

    def shapes(self) -> list[ShapeRecord]:
        """What regions of converted models that are loaded have done, by shape."""
        records = []

        def visit(_: Any, model: bytes, region: int, shape: bytes, runs: int, fallbacks: int) -> None:
            records.append(ShapeRecord(model.decode(errors="replace"), region, shape.decode(), runs, fallbacks))

        self._library.tfs_visit_shapes(SHAPES_CALLBACK(visit), None)
        return records

    def load_cublas_lt(self, files: Sequence[str]) -> str:
        """Why this process has no cuBLASLt; "" if it has: TensorFlow's own copy where it is loaded, else one of
        `files`."""
        return str(self._library.tfs_load_cublas_lt("\n".join(files).encode()).decode(errors="replace"))

    def load_cudnn(self, files: Sequence[str]) -> str:
        """As load_cublas_lt, of cuDNN."""
        return str(self._library.tfs_load_cudnn("\n".join(files).encode()).decode(errors="replace"))

    def cudnn_version(self) -> int:
        """The version of the cuDNN that is loaded, as 91900 for 9.19; 0: none is."""
        return int(self._library.tfs_cudnn_version())

    def try_calls(self, device: int, words: Sequence[int]) -> str:
        """Why a GPU cannot make the library calls of an executable that has no inputs, variables and outputs; "" if it
        can: then they are made, which takes up to a second each, and kept for whoever runs them."""
        array = (ctypes.c_int64 * len(words))(*words)
        return str(self._library.tfs_try_calls(device, array, len(words)).decode(errors="replace"))

    def load_ahead(self, device: int, words: Sequence[int], inputs: Sequence[int], variables: Sequence[int],
                   outputs: Sequence[int]) -> str:
        """Loads what an executable runs on a GPU, so that its first run need not; "" or why that cannot be done.

        Args:
            inputs, variables: bytes of each.
            outputs: bytes of one element of each.
        """
        array, bytes_ = (ctypes.c_int64 * len(words))(*words), [*inputs, *variables, *outputs]
        return str(self._library.tfs_load_ahead(device, array, len(words), (ctypes.c_int64 * len(bytes_))(*bytes_),
                                                len(inputs), len(variables), len(outputs)).decode(errors="replace"))

    def load_nccl(self, files: Sequence[str]) -> str:
        """As load_cublas_lt, of NCCL."""
        return str(self._library.tfs_load_nccl("\n".join(files).encode()).decode(errors="replace"))

    def set_graphs(self, limit: int, programmatic: bool) -> None:
        """How many executables of the process have CUDA graphs at most (of a region 8 have), and whether graphs made
        from now on start kernels beside the ones that they depend on."""
        self._library.tfs_set_graphs(limit, programmatic)

    def graphs(self) -> list[GraphRecord]:
        """What became of the CUDA graphs of every region that ran on a GPU."""
        records = []

        def visit(region: int, device: int, counts: Any, error: bytes) -> None:
            (graphs, instances, making_ns, launches, host_ns, known, known_ns, updates, programmatic, refused,
             given_up, failures) = counts[:12]
            records.append(GraphRecord(region, device, graphs, instances, making_ns, launches, host_ns, known, known_ns,
                                       updates, programmatic, refused, given_up, failures,
                                       error.decode(errors="replace")))

        self._library.tfs_visit_graphs(GRAPHS_CALLBACK(visit))
        return records

    def region_runs(self, region: int) -> int:
        """How often an executable of `region` ran, over all devices: once an iteration if it is the body of a loop."""
        return int(self._library.tfs_region_runs(region))

    def region_fallbacks(self, region: int) -> int:
        """How often `region` ran by its own TensorFlow nodes because its kernels could not, over all devices."""
        return int(self._library.tfs_region_fallbacks(region))

    def region_preferred_fallbacks(self, region: int) -> int:
        """How often `region` ran by its own TensorFlow nodes because they are faster."""
        return int(self._library.tfs_region_preferred_fallbacks(region))

    def region_kernels(self, region: int) -> int:
        """How many kernels run `region`, over all devices, of those that ever did."""
        return int(self._library.tfs_region_kernels(region))

    def region_shadows(self, region: int) -> int:
        """How often the TensorFlow nodes of `region` ran beside its kernels, to time them; results were dropped."""
        return int(self._library.tfs_region_shadows(region))

    def enable_profitability_check(self, enabled: bool, apart: float = SERIES_APART, share: float = SHADOW_SHARE
                                   ) -> None:
        """Whether regions that have not decided yet time their two forms.

        Args:
            apart: seconds from one series of timed calls to the next, at least.
            share: of the program's time, what TensorFlow's nodes may take that run to be timed, in all regions.
        """
        self._library.tfs_enable_profitability_check(enabled, round(apart * 1e9), share)

    def fail_allocation(self, after: int) -> None:
        """Lets an allocation of kernels fail once, after this many that succeed; negative: none. For tests."""
        self._library.tfs_fail_allocation(after)

    def native_fallbacks(self) -> list[tuple[int, str, int]]:
        """(region, reason, count) of fallbacks that did not go through Python."""
        reasons = []

        def visit(region: int, reason: bytes, count: int) -> None:
            reasons.append((region, reason.decode(errors="replace"), count))

        self._library.tfs_visit_reasons(REASON_CALLBACK(visit))
        return reasons


_loaded: OpLibrary | None = None
_load_lock = threading.Lock()


def load_op(cache_dir: Path, portable: bool = False) -> OpLibrary:
    """Builds (if needed; `portable`: for other processors, too) and loads the op; then the same object, for an op
    can be registered only once.

    Raises:
        NativeError: it cannot be built or loaded.
    """
    global _loaded
    import tensorflow as tf

    with _load_lock:
        if _loaded is None:
            path = build_library(STITCH_OP, cache_dir, portable)
            try:
                raw_ops = tf.load_op_library(str(path))
                serving = serving_copy(path)
                _loaded = OpLibrary(serving, raw_ops if serving == path else tf.load_op_library(str(serving)))
            except (OSError, tf.errors.OpError) as error:
                raise NativeError(f"{path} could not be loaded: {error}; remove it to build it anew") from error
        return _loaded


def _verdict_callbacks(verdicts: Verdicts | None) -> tuple[Any, Any, Any]:
    if verdicts is None:
        return RECALL_CALLBACK(), SETTLE_CALLBACK(), NOT_TIMED_CALLBACK()

    def given(verdict: Verdict, from_call: Any) -> int:
        from_call[0] = verdict.from_call
        return _FALLBACK if verdict.prefers_fallback else _STITCHED

    def on_recall(region: int, device: int, key: Any, n: int, from_call: Any) -> int:
        try:
            known = verdicts.recall(region, device, tuple(key[:n]))
        except Exception as error:  # cannot cross C++
            on_not_timed(region, _message(error))
            return 0
        return 0 if known is None else given(known, from_call)

    def on_settle(region: int, device: int, key: Any, n: int, fallback: int, stitched_us: float, own_us: float,
                  pairs: int, call: int, from_call: Any) -> int:
        try:
            measured = Verdict(bool(fallback), stitched_us, own_us, pairs=pairs)
            return given(verdicts.settle(region, device, tuple(key[:n]), measured, call), from_call)
        except Exception as error:  # cannot cross C++; the kernels stay
            on_not_timed(region, _message(error))
            return _STITCHED

    def on_not_timed(region: int, reason: bytes) -> None:
        verdicts.not_timed(region, reason.decode(errors="replace"))

    return RECALL_CALLBACK(on_recall), SETTLE_CALLBACK(on_settle), NOT_TIMED_CALLBACK(on_not_timed)


def _status(error: Exception) -> tuple[int, bytes]:
    """Code and message of the user's TensorFlow error: what TensorFlow's own op raised stays that."""
    code = getattr(error, "error_code", None)
    if isinstance(code, int):
        return code, str(getattr(error, "message", error)).encode(errors="replace")
    return _INTERNAL, b"tf_stitch: the fallback failed: " + _message(error)


def _message(error: Exception) -> bytes:
    return f"{type(error).__name__}: {error}".encode(errors="replace")
