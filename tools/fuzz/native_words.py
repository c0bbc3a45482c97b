"""Mutated executables, modules and roles of loops under AddressSanitizer and UBSan: none crashes or reads outside.

    python -m tools.fuzz.native_words --mutants=100000 --seed=1 --out=benchmarks/native_words.md

The corpus is what regions of the zoo's graphs compile to, on a CPU and on a GPU that need not be there, and modules of
them. native_words.cc says what is done with each mutant.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gzip
import hashlib
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tf_stitch.compiler.pipeline import CompiledRegion, CompileOptions, compile_region
from tf_stitch.convert.module_file import ALIGNED, FUNCTION, IMAGE, IMAGE_BYTES, MAGIC, NAME, VERSION, reference
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.arguments import arguments_of
from tf_stitch.ir.graph import Node
from tf_stitch.ir.op_attrs import InputAttrs, VariableAttrs
from tf_stitch.ir.text_parser import parse_graphs
from tf_stitch.native.build import SOURCE_DIR, find_compiler
from tf_stitch.placement.executable import encode
from tf_stitch.placement.executable_format import ABI_VERSION

ROOT = Path(__file__).resolve().parents[2]
ZOO = ROOT / "tests" / "planning" / "graphs" / "zoo"
NAMES = ("bert", "dien")
SOURCES = ("op/executable.cc", "op/gemm.cc", "op/aot_module.cc", "loop/loop_roles.cc")
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-O1", "-g1")
ADDRESS = 4096
"""Of what is never called."""
EXECUTABLE, MODULE, ROLES = range(3)
ROLES_CASES = (
    ((0, 4, 0, 4, 2, 2), (3, 0, 0, 1, 1, 0, 2, 2, 0, 1, 1, 1, 1, 2, 0, 0, 0, 1, 1, -1, 1)),
    ((0, 3, 3, 2, 1, 1), (2, 0, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1)),
)
"""Limits, and words that they allow (native/bindings.py has the encoding)."""


def build(folder: Path) -> Path:
    """The program, sanitized; it takes about ten seconds.

    Raises:
        subprocess.CalledProcessError: the compiler refuses it.
    """
    program = folder / "native_words"
    sources = [Path(__file__).with_suffix(".cc"), *(SOURCE_DIR / source for source in SOURCES)]
    subprocess.run([find_compiler() or "g++", "-std=c++17", *SANITIZED, f"-I{SOURCE_DIR}", *map(str, sources), "-ldl",
                    "-o", str(program)], check=True)
    return program


def feed(program: Path, corpus: Path, mutants: int, seed: int, timeout: float) -> subprocess.CompletedProcess[str]:
    """A run; one that ends otherwise than by 0 has crashed, hung, or taken what is wrong."""
    return subprocess.run([str(program), str(corpus), str(mutants), str(seed)], capture_output=True, text=True,
                          timeout=timeout, check=False)


def write_corpus(path: Path, names: Sequence[str] = NAMES, regions: int = 4) -> int:
    """Returns how many cases it has.

    Args:
        regions: of each model and device.
    """
    cases = [case for name in names for device in (CPU, H200)
             for region in _compiled(name, device, regions) for case in _cases(region, device)]
    cases += [[ROLES, *limits, len(words), *words] for limits, words in ROLES_CASES]
    path.write_bytes(b"".join(struct.pack(f"<{len(case)}q", *case) for case in cases))
    return len(cases)


def _compiled(name: str, device: DeviceSpec, most: int) -> Iterator[CompiledRegion]:
    text = gzip.decompress((ZOO / f"{name}.{'region' if device.simt else 'ops'}.txt.gz").read_bytes()).decode()
    for graph in sorted(parse_graphs(text), key=lambda graph: len(graph.nodes()))[:most]:
        yield compile_region(graph, *arguments_of(graph), CompileOptions(device))


def _cases(region: CompiledRegion, device: DeviceSpec) -> Iterator[list[int]]:
    """The executable as Python sends it, and in a module."""
    executable, graph = region.executable, region.plan.graph
    inputs, variables = arguments_of(graph)
    size = {_key(node): node.type.nbytes for node in graph.inputs()}
    extents = [int(device.simt), len(inputs), *(size[key] for key in inputs), len(variables),
               *(size[key] for key in variables), len(executable.outputs),
               *(one.dtype.size for one in executable.outputs)]
    symbols = sorted({step.symbol for step in executable.steps if hasattr(step, "symbol")})
    images = {(ADDRESS, ADDRESS): symbols} if device.simt and symbols else None
    words = encode(executable, dict.fromkeys(symbols, ADDRESS), images)
    yield [EXECUTABLE, *extents, len(words), *words]
    if device.simt or not symbols:  # a CPU's kernels would have to be there
        names = {symbol: reference(NAME if device.simt else FUNCTION, i) for i, symbol in enumerate(symbols)}
        images = {(reference(IMAGE, 0), reference(IMAGE_BYTES, 0)): symbols} if symbols else None
        module = _module(encode(executable, names, images), symbols, device.simt)
        yield [MODULE, *extents, 0, 2, ALIGNED, 0, len(module), *module]


def _key(node: Node) -> str:
    if isinstance(node.attrs, VariableAttrs):
        return node.attrs.handle
    assert isinstance(node.attrs, InputAttrs)
    return node.attrs.key


def _module(words: Sequence[int], symbols: Sequence[str], on_gpu: bool) -> list[int]:
    """A module with one region and one library, for a key without shapes (convert/module_file.py has the form)."""
    blob = b"a cubin.".ljust(64, b"\0")
    head = [VERSION, ABI_VERSION, 1, 0, len(blob), *struct.unpack("<4q", hashlib.sha256(blob).digest()), 1, 1,
            90 if on_gpu else 0, 0, len(symbols)]
    for symbol in symbols:
        text = symbol.encode()
        padded = text + bytes(-len(text) % 8)
        head += [0, len(text), *struct.unpack(f"<{len(padded) // 8}q", padded)]
    head += [1, 1, int(on_gpu), 90 if on_gpu else 0, ALIGNED, 1, 0, len(words), *words]
    data = MAGIC + struct.pack(f"<q{len(head)}q", len(head), *head) + blob
    return list(struct.unpack(f"<{len(data) // 8}q", data))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=3600, help="seconds")
    parser.add_argument("--out", type=Path, help="a table, if none failed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tf_stitch_native_words_") as folder:
        corpus = Path(folder, "corpus")
        print(f"{write_corpus(corpus)} cases", flush=True)
        done = feed(build(Path(folder)), corpus, args.mutants, args.seed, args.timeout)
    print(done.stdout, end="")
    print(done.stderr[-4000:], end="", file=sys.stderr)
    if args.out is not None and not done.returncode:
        args.out.write_text(_table(done.stdout))
    return done.returncode


def _table(said: str) -> str:
    from tools.benchmark.raw_rows import command_line

    rows = re.findall(r"(\w+): (\d+) mutants, (\d+) refused, (\d+) run", said)
    return "\n".join([
        "# Mutated words of executables, modules and loops under AddressSanitizer and UBSan", "",
        f"{dt.datetime.now(tz=dt.UTC):%Y-%m-%d}: `{command_line(sys.argv)}`. None crashed, hung or read outside.", "",
        "| words of | mutants | refused | run |", "| --- | ---: | ---: | ---: |",
        *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
