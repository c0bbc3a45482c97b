"""What a device was measured to do: the numbers that predicted times are made of. Made by `tools/calibrate`."""

from __future__ import annotations

import bisect
import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

from tf_stitch.atomic_file import read_verified, write_atomically, write_verified
from tf_stitch.device.choice_numbers import ChoiceNumbers
from tf_stitch.device.kernel_numbers import KernelNumbers, MatmulNumbers
from tf_stitch.device.library_numbers import LibraryNumbers
from tf_stitch.device.matmul_times import MatmulTimes, Sizes, parse_matmuls
from tf_stitch.device.numbers import MeasuredNumber, group_of, parse_numbers, units
from tf_stitch.device.size_numbers import HostNumbers, SizeNumbers
from tf_stitch.errors import DamagedFileError, ProfileError

VERSION = 4
"""Of the file format, and in the name of a user's own profile: one of another version is not read."""

GROUPS: tuple[tuple[str, type[Any]], ...] = (
    ("kernels", KernelNumbers), ("matmul_kernels", MatmulNumbers), ("choices", ChoiceNumbers),
    ("library_calls", LibraryNumbers), ("sizes", SizeNumbers), ("host", HostNumbers))
"""Properties of a profile, and what each holds."""

MOST_ROW_BYTES = 16
"""Multiples of more make no matmul faster."""

Curve: TypeAlias = tuple[tuple[float, float], ...]
"""(x, y) points, x ascending; between them y follows a straight line over log x."""


@dataclass(frozen=True)
class DeviceProfile:
    """Measured numbers of one device. Hashable and equal by value, but for `made`.

    Attributes:
        target: "cuda" or "cpu".
        processors: streaming multiprocessors, or cores.
        launch_us: one more empty kernel in a queue of them (CPU: a call of a kernel whose code and arguments no cache
            holds: the rest of a step ran since it was called last).
        op_us: one more op of ours in a chain of them in TensorFlow's executor, its launch included.
        handover_us: CPU: handing a loop to the worker threads and waiting for them. 0 on a GPU.
        reduction: threads -> microseconds of a reduction over this many, its barriers included. GPU only.
        bandwidth: bytes that a kernel moves -> 10^9 bytes a second it reads and writes (CPU: of one core). The kernel
            is repeated over the same memory: what fits a cache comes from there.
        all_cores: CPU: factor that all cores together gain over one where memory is the limit.
        latency: bytes of a table -> microseconds of a load that depends on the one before. GPU only.
        gather: bytes of a table -> 10^9 scattered elements (4 bytes) a second, of the device (CPU: of one core).
        cache_bytes: of the last cache that cores share.
        shared_bytes: shared memory one block may use; 0 on a CPU.
        wave_us: GPU: blocks that take the place of others, all at once, beyond what their loads wait. 0 on a CPU.
        rates: element type -> op -> 10^9 of them a second on the whole device (CPU: one core, vectorised; "scalar
            float32" in loops that are not; "dot": multiplications with additions of a matmul in tasks). Those of
            bfloat16 are of results that are halves, of either type, for which less exact functions do on a GPU; what it
            lacks takes what float32 does.
        loop_us: CPU: entering and leaving a vectorised loop. 0 on a GPU.
        barrier: blocks -> microseconds in which all of them wait for each other. GPU only.
        matmuls: element type -> times of matmuls by the library, among others like them (float32: with TF32
            as TensorFlow has it by default). Without any, library calls are estimated; on a GPU those of more rows
            than were measured take what `matmul_rates` says.
        matmul_rates: element type -> bytes (2 to 16) of which the rows of all matrices begin at multiples -> 10^9
            multiplications, and as many additions, a second of a large matmul by the library. GPU only.
        numbers: what else was measured on the device, by name, "group.field" (see GROUPS). Those that are missing
            follow from the shipped profile of the target.
        made: hardware, versions, date, command.
    """

    name: str
    target: str
    processors: int
    launch_us: float
    op_us: float
    handover_us: float
    reduction: Curve
    bandwidth: Curve
    all_cores: float
    latency: Curve
    gather: Curve
    cache_bytes: int
    shared_bytes: int
    wave_us: float
    rates: tuple[tuple[str, tuple[tuple[str, float], ...]], ...]
    loop_us: float
    barrier: Curve
    matmuls: tuple[tuple[str, MatmulTimes], ...]
    matmul_rates: tuple[tuple[str, tuple[tuple[int, float], ...]], ...] = ()
    numbers: tuple[tuple[str, MeasuredNumber], ...] = ()
    made: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def per_core(self) -> bool:
        """Whether rates and bandwidth are those of one core, not of the whole device."""
        return self.target == "cpu"

    @cached_property
    def kernels(self) -> KernelNumbers:
        return group_of(KernelNumbers, "kernels", self, self._shipped)

    @cached_property
    def matmul_kernels(self) -> MatmulNumbers:
        return group_of(MatmulNumbers, "matmul_kernels", self, self._shipped)

    @cached_property
    def choices(self) -> ChoiceNumbers:
        return group_of(ChoiceNumbers, "choices", self, self._shipped)

    @cached_property
    def library_calls(self) -> LibraryNumbers:
        return group_of(LibraryNumbers, "library_calls", self, self._shipped)

    @cached_property
    def sizes(self) -> SizeNumbers:
        return group_of(SizeNumbers, "sizes", self, self._shipped)

    @cached_property
    def host(self) -> HostNumbers:
        return group_of(HostNumbers, "host", self, self._shipped)

    def _shipped(self) -> DeviceProfile:
        """That numbers of other devices of the target follow from."""
        return shipped_profile("h200" if self.target == "cuda" else "cpu")

    def rate(self, dtype: str, op: str, cost: float) -> float:
        """10^9 ops a second; one that was not measured takes `cost` times as long as an addition."""
        tables = self._tables
        scalar = tables.get("scalar float32") if dtype.startswith("scalar ") else None
        if dtype == "bfloat16":
            return tables.get(dtype, {}).get(op) or self.rate("float32", op, cost)
        table = tables.get(dtype) or scalar or tables["float32"]
        return table.get(op) or table["add"] / max(cost, 1)

    def matmul_us(self, dtype: str, sizes: Sizes, row_bytes: int = MOST_ROW_BYTES) -> float | None:
        """Microseconds of `batch` matmuls [m, k] x [k, n]; None if none of that element type, or on a GPU of this many
        rows, were measured. bfloat16 takes as long as float16 unless it was measured by itself.

        Args:
            row_bytes: a power of two of which the rows of all matrices begin at multiples.
        """
        times = self._matmul_times.get(dtype) or self._matmul_times.get("float16" if dtype == "bfloat16" else dtype)
        if times is None:
            return None
        if self.target != "cuda":
            return times.at(sizes)
        batch, m, k, n = sizes
        if m > times.most_rows >= n:
            m, n = n, m  # the transposed matmul
        few = self._few_rows_us(times, (batch, min(m, times.most_rows), k, n), _bytes_of(dtype, sizes))
        if m <= times.most_rows:
            return few
        large = self._large_matmul_us(dtype, sizes, row_bytes)
        return None if large is None else max(large, few)

    def _few_rows_us(self, times: MatmulTimes, sizes: Sizes, moved: int) -> float:
        """Of no more rows than were measured. Where there are more terms, processors share them: it takes the cube root
        of what they are more (docs/decisions/skinny_matmuls.md), or what the bytes take."""
        batch, m, k, n = sizes
        if k <= times.most_terms:
            return times.at(sizes)
        shared = times.at((batch, m, times.most_terms, n)) * math.pow(k / times.most_terms, 1 / 3)
        return max(shared, self.launch_us + 1e-3 * moved / interpolate(self.bandwidth, moved))

    def _large_matmul_us(self, dtype: str, sizes: Sizes, row_bytes: int) -> float | None:
        """By the rate of tensor cores, or by the bytes."""
        rates = dict(self.matmul_rates)
        known = dict(rates.get(dtype) or rates.get("float16" if dtype == "bfloat16" else dtype) or ())
        if not known:
            return None
        batch, m, k, n = sizes
        moved = _bytes_of(dtype, sizes)
        computing, moving = batch * m * k * n / known[max(known)], moved / interpolate(self.bandwidth, moved)
        aligned = max(computing, moving) + min(computing, moving) / 2  # a tile's first bytes and last results wait
        rate = known[max((row for row in known if row <= row_bytes), default=min(known))]
        return self.launch_us + 1e-3 * aligned * known[max(known)] / rate

    @cached_property
    def _matmul_times(self) -> dict[str, MatmulTimes]:
        return dict(self.matmuls)

    @cached_property
    def _tables(self) -> dict[str, dict[str, float]]:
        return {dtype: dict(ops) for dtype, ops in self.rates}

    def document(self) -> dict[str, Any]:
        """The profile as JSON."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        rates = {dtype: dict(ops) for dtype, ops in self.rates}
        matmuls = {dtype: times.document() for dtype, times in self.matmuls}
        large = {dtype: {str(row): rate for row, rate in known} for dtype, known in self.matmul_rates}
        return {"version": VERSION, **values, "rates": rates, "matmuls": matmuls, "matmul_rates": large,
                "numbers": {name: one._asdict() for name, one in self.numbers}, "made": dict(self.made)}


def _bytes_of(dtype: str, sizes: Sizes) -> int:
    """Of the matrices of a matmul, each once."""
    batch, m, k, n = sizes
    return batch * (m * k + k * n + m * n) * (4 if dtype == "float32" else 2)


def interpolate(curve: Curve, x: float) -> float:
    """The curve at x; constant beyond its ends."""
    i = bisect.bisect_left(curve, (x,))
    if i == 0:
        return curve[0][1]
    if i == len(curve):
        return curve[-1][1]
    (x0, y0), (x1, y1) = curve[i - 1], curve[i]
    return y0 + (y1 - y0) * math.log(x / x0) / math.log(x1 / x0)


def parse_profile(document: Any) -> DeviceProfile:
    """A profile from its JSON.

    Raises:
        ProfileError: a field is missing, of the wrong type or out of its range; the message names it.
    """
    if not isinstance(document, dict):
        raise ProfileError("a device profile is a JSON object")
    if document.get("version") != VERSION:
        raise ProfileError(f"version {document.get('version')!r} of a device profile; this tf_stitch reads {VERSION}")
    document = {"numbers": {}, **document}
    known = {f.name for f in fields(DeviceProfile)}
    if set(document) != known | {"version"}:
        odd = ", ".join(sorted(set(document) ^ (known | {"version"})))
        raise ProfileError(f"a device profile lacks or does not know: {odd}")
    values = {name: _field(name, document[name]) for name in known}
    if values["target"] not in ("cpu", "cuda"):
        raise ProfileError(f"target {values['target']!r} of a device profile is neither cpu nor cuda")
    for curve in ("latency", "reduction", "barrier"):
        if values["target"] == "cuda" and not values[curve]:
            raise ProfileError(f"{curve} of a device profile has no points")
    return DeviceProfile(**values)


_MAY_BE_ZERO = ("wave_us", "loop_us", "handover_us", "shared_bytes")


def _field(name: str, value: Any) -> Any:
    if name in ("name", "target"):
        if isinstance(value, str) and value:
            return value
    elif name == "made":
        if isinstance(value, dict):
            return value
    elif name == "rates":
        if isinstance(value, dict) and "float32" in value:
            return tuple((dtype, tuple((op, _number(f"rates of {op}", rate)) for op, rate in sorted(ops.items())))
                         for dtype, ops in sorted(value.items()))
    elif name == "matmuls":
        return parse_matmuls(value)
    elif name == "numbers":
        return parse_numbers(value, units(GROUPS))
    elif name == "matmul_rates":
        return tuple((dtype, tuple(sorted((_row_bytes(row), _number(name, rate)) for row, rate in known.items())))
                     for dtype, known in sorted(value.items()))
    elif name in ("bandwidth", "latency", "gather", "reduction", "barrier"):
        return _curve(name, value)
    elif name in ("processors", "cache_bytes", "shared_bytes"):
        return int(_number(name, value, zero=name in _MAY_BE_ZERO))
    else:
        return _number(name, value, zero=name in _MAY_BE_ZERO)
    raise ProfileError(f"{name} of a device profile is {value!r}")


def _row_bytes(text: str) -> int:
    if text not in ("2", "4", "8", "16"):
        raise ProfileError(f"matmul_rates of a device profile are for rows at multiples of {text!r} bytes")
    return int(text)


def _curve(name: str, value: Any) -> Curve:
    if not isinstance(value, list | tuple) or (not value and name == "bandwidth"):
        raise ProfileError(f"{name} of a device profile has no points")
    curve = tuple((_number(name, x), _number(name, y)) for x, y in value)
    if any(a[0] >= b[0] for a, b in itertools.pairwise(curve)):
        raise ProfileError(f"{name} of a device profile does not ascend")
    return curve


def _number(name: str, value: Any, zero: bool = False) -> float:
    ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not ok or value < 0 or (value == 0 and not zero):
        raise ProfileError(f"{name} of a device profile is {value!r}, not a positive number")
    return float(value)


def read_profile(path: Path) -> DeviceProfile:
    """A profile from a file; one that `write_profile` wrote is as it was then.

    Raises:
        ProfileError: the file cannot be read or holds no profile; the message names it.
    """
    try:
        return parse_profile(json.loads(read_verified(path, digest_required=False)))
    except DamagedFileError as error:
        raise ProfileError(error.message) from None
    except (OSError, ValueError, TypeError, AttributeError, ProfileError) as error:
        raise ProfileError(f"{path}: {error}") from None


def write_profile(profile: DeviceProfile, path: Path, in_cache: bool) -> None:
    """Writes a profile, whole or not at all: with a digest for the cache folder, elsewhere as plain JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write = write_verified if in_cache else write_atomically
    write(path, (json.dumps(profile.document(), indent=1) + "\n").encode(), 0o644)


@cache
def shipped_profile(name: str) -> DeviceProfile:
    """A profile that comes with the package: "h200" or "cpu"."""
    with resources.as_file(resources.files("tf_stitch.device") / "profiles" / f"{name}.json") as path:
        return read_profile(path)


def device_key(hardware: str) -> str:
    """The file name of a device's own profile, from its name as the driver or the kernel says it."""
    letters = "".join(c if c.isalnum() else "_" for c in hardware.lower())
    return "_".join(part for part in letters.split("_") if part)
