"""Whether a change leaves what is run as it is: a hash of each region's source and executable, for a CPU and an H200.

    python -m tools.emitted_sources --out=/tmp/before.json         in a checkout of the commit before
    python -m tools.emitted_sources --against=/tmp/before.json     in the changed tree; fails where one differs

Regions are the zoo's (tests/planning/graphs/zoo), and those of other folders of graphs (--graphs), such as
`python -m tools.zoo_graphs --out=DIR` writes. Plans that an integer program's time limit cuts short differ from run to
run: none of the zoo's does.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from absl import app, flags

from tf_stitch.compiler.options import CompileOptions
from tf_stitch.compiler.pipeline import compile_region
from tf_stitch.device.spec import CPU, H200, DeviceSpec
from tf_stitch.ir.arguments import arguments_of
from tf_stitch.ir.text_parser import parse_graphs

ZOO = Path(__file__).resolve().parents[1] / "tests" / "planning" / "graphs" / "zoo"

_GRAPHS = flags.DEFINE_list("graphs", [str(ZOO)], "folders of *.ops.txt.gz (CPUs) and *.region.txt.gz (GPUs)")
_NAMES = flags.DEFINE_list("names", None, "models; none: all")
_OUT = flags.DEFINE_string("out", None, "JSON to write")
_AGAINST = flags.DEFINE_string("against", None, "JSON that an earlier commit wrote")


def main(_: Sequence[str]) -> None:
    found: dict[str, str] = {}
    for folder in map(Path, _GRAPHS.value):
        for path in sorted(folder.glob("*.txt.gz")):
            model, scope = path.name.split(".")[:2]
            if _NAMES.value is None or model in _NAMES.value:
                found |= dict(hashes(path, H200 if scope == "region" else CPU))
                print(f"{model}.{scope}", flush=True)
    if _OUT.value:
        Path(_OUT.value).write_text(json.dumps(found, indent=1) + "\n")
    if _AGAINST.value:
        before = json.loads(Path(_AGAINST.value).read_text())
        changed = [name for name in found if before.get(name) != found[name]]
        print(f"{len(changed)} of {len(found)} regions differ", *changed, sep="\n  ")
        if changed:
            raise SystemExit(1)


def hashes(path: Path, device: DeviceSpec) -> Iterator[tuple[str, str]]:
    """The name of each region of a file, and a hash of its source and of the steps over buffers that run it."""
    graphs = parse_graphs(gzip.decompress(path.read_bytes()).decode())
    for number, graph in enumerate(graphs):
        compiled = compile_region(graph, *arguments_of(graph), CompileOptions(device))
        text = f"{compiled.source}{compiled.executable!r}"
        yield f"{path.name}:{number} {device.target}", hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    app.run(main)
