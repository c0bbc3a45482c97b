"""Who may import whom (docs/architecture.md), held by reading the sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

from tests.support.rules import holds_for

PACKAGE = Path(__file__).parents[2] / "tf_stitch"

EVERYONE = {"config", "errors", "atomic_file", "json_folder", "private_folder", "shared_folder", "child_process",
            "compiler_run", "interruption", "messages", "version", "wire_format", "templates"}
# Part -> parts of tf_stitch it may import, from the lowest part to the highest: each may import parts before it. Every
# part may import itself, and what is for EVERYONE. A narrower entry ("planning.pattern") allows one module of a part.
ALLOWED: dict[str, set[str]] = {
    **{part: set() for part in sorted(EVERYONE)},
    "ir": set(),
    "device": set(),
    "pass_manager": set(),
    "hfuse": {"device.spec"},
    "frontend": {"ir"},
    "kernel_ir": {"device", "ir"},
    "libraries": {"ir", "device", "kernel_ir.nodes"},
    "planning": {"ir", "device", "kernel_ir", "libraries"},
    "schedule": {"ir", "device", "planning.pattern", "kernel_ir.matmul"},
    "lowering": {"ir", "planning.pattern", "schedule", "kernel_ir"},
    "families": {"ir", "device", "planning.pattern", "planning.pattern_kind", "planning.attention",
                 "planning.attention_gradient", "planning.stitched_matmul", "kernel_ir", "schedule", "lowering"},
    "passes": {"ir", "pass_manager", "device", "libraries", "planning", "families.matmul_tiles", "schedule.reuse",
               "kernel_ir.work"},
    "emit": {"kernel_ir", "ir"},
    "placement": {"ir", "kernel_ir", "libraries", "lowering.kernel", "schedule.kernel_schedule", "families.registry"},
    "runtime": {"emit", "device", "ir.dtypes", "placement.executable", "placement.executable_format"},
    "native": {"libraries.registry", "runtime.cache_key", "runtime.cpu_flags", "runtime.kernel_cache",
               "runtime.library_check", "placement.executable_format"},
    "targets": {"ir", "libraries", "pass_manager", "passes", "device", "planning.matmul_sizes", "schedule.reuse",
                "schedule.shared_rows", "families", "kernel_ir", "emit", "runtime"},
    "compiler": {"ir", "pass_manager", "passes", "device", "libraries", "planning", "schedule", "kernel_ir",
                 "lowering", "families", "placement", "emit.rendered", "emit.cuda_kernel", "runtime", "targets"},
    "report": {"ir", "device", "libraries", "frontend", "planning", "schedule", "kernel_ir", "lowering", "pass_manager",
               "placement.executable", "compiler", "targets"},
    "graph": {"ir", "frontend", "planning", "passes", "runtime.host_builder", "report.entries", "pass_manager"},
    "jit": {"ir", "device", "libraries", "frontend", "planning", "schedule", "kernel_ir", "lowering", "emit.rendered",
            "placement", "runtime", "compiler", "targets", "native", "graph.clustering.region_graph", "report"},
    "plugin": {"frontend", "runtime", "native", "graph", "report", "jit", "pass_manager"},
    "cli": {"ir", "device", "targets", "frontend", "planning", "schedule", "compiler", "runtime", "graph", "report",
            "jit", "native", "pass_manager", "plugin.autoload", "plugin.installed_tensorflow", "hfuse.command"},
    "convert": {"ir", "device.spec", "device.profile", "targets", "emit.rendered", "frontend", "planning", "schedule",
                "placement.executable", "placement.executable_format", "compiler", "runtime", "graph", "jit", "native"},
}
TOP = {"__main__", "api"}  # on top of everything

# Foreign package -> modules of tf_stitch that may import it, and where code that wants it belongs.
FOREIGN: dict[str, tuple[tuple[str, ...], str]] = {
    "tensorflow": (("frontend", "graph", "plugin", "cli", "convert", "native", "api", "__main__"),
                   "frontend/tensorflow, graph or plugin"),
    "keras": (("plugin",), "plugin"),
    "pulp": (("planning.ilp_solver",), "planning/ilp_solver.py"),
    "cupy": (("runtime", "hfuse.device"), "runtime or hfuse/device.py"),
    "clang": (("hfuse.source",), "hfuse/source.py"),
    "cupy_backends": (("runtime",), "runtime"),
    "networkx": (("planning", "schedule", "kernel_ir", "compiler.cooperative_fusion"),
                 "planning, schedule or kernel_ir"),
}
ENVIRONMENT = ("config",)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(p): p for p in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree_of(path: Path) -> ast.AST:
    """Parsed once for all tests."""
    return ast.parse(path.read_text())


def imports(tree: ast.AST) -> Iterator[str]:
    """Full names of imported modules; `from a import b` gives both a and a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def covers(entry: str, module: str) -> bool:
    return module == entry or module.startswith(entry + ".")


def part_of(module: str) -> str:
    return module.split(".")[0]


@holds_for(sorted(ALLOWED))
def test_parts_stand_above_what_they_may_import(part: str) -> None:
    order = list(ALLOWED)
    upwards = sorted(entry for entry in ALLOWED[part] if order.index(part_of(entry)) >= order.index(part))
    assert not upwards, f"{part} is below {upwards}: what both need belongs in a part below both"


@holds_for(sorted(MODULES))
def test_imports_point_downwards(module: str) -> None:
    part = part_of(module)
    if part in TOP or module in ("__init__", ""):
        return
    assert part in ALLOWED, f"tf_stitch.{part} is new: say in ALLOWED (and docs/architecture.md) what it may import"
    for name in imports(tree_of(MODULES[module])):
        if not name.startswith("tf_stitch."):
            continue
        target = name.removeprefix("tf_stitch.")
        allowed = {part} | EVERYONE | ALLOWED[part]
        lower = " or ".join(sorted(ALLOWED[part])) or "errors"
        assert any(covers(entry, target) for entry in allowed), (
            f"{module} imports {name}, but {part} may import only {sorted(allowed)}. If both need a helper, it belongs "
            f"in {lower}; if {part} needs a decision of {part_of(target)}, pass it in from pipeline.py.")


def import_graph(package: Path) -> nx.DiGraph[str]:
    """Module -> every module of the package that it imports: inside functions and for type checkers, too."""
    modules = {".".join(("tf_stitch", *p.relative_to(package).with_suffix("").parts)).removesuffix(".__init__"): p
               for p in sorted(package.rglob("*.py"))}
    graph: nx.DiGraph[str] = nx.DiGraph()
    for module, path in modules.items():
        for name in imports(tree_of(path)):  # of a module, or of something in one
            imported = name if name in modules else name.rpartition(".")[0]
            if imported in modules:
                graph.add_edge(module, imported)
    return graph


def test_no_module_imports_itself_by_way_of_others() -> None:
    """An import inside a function, or for type checkers alone, hides a cycle and does not break it."""
    cycles = [sorted(part) for part in nx.strongly_connected_components(import_graph(PACKAGE)) if len(part) > 1]
    assert not cycles, f"{cycles[0]} import each other: what two of them need belongs in a module below both"


def test_an_import_inside_a_function_counts(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from tf_stitch.b import f\n")
    (tmp_path / "b.py").write_text("def f():\n    from tf_stitch import a\n")
    assert list(nx.find_cycle(import_graph(tmp_path))) == [("tf_stitch.a", "tf_stitch.b"),
                                                           ("tf_stitch.b", "tf_stitch.a")]


@holds_for(sorted(ALLOWED))
def test_what_is_allowed_is_needed(part: str) -> None:
    imported = {name.removeprefix("tf_stitch.") for module, path in MODULES.items() if part_of(module) == part
                for name in imports(tree_of(path))}
    unused = {entry for entry in ALLOWED[part] if not any(covers(entry, name) for name in imported)}
    assert not unused, f"{part} imports nothing of {sorted(unused)}: take it out of ALLOWED (and docs/architecture.md)"


@holds_for(sorted(MODULES))
def test_foreign_packages_stop_at_their_door(module: str) -> None:
    for name in imports(tree_of(MODULES[module])):
        owners, place = FOREIGN.get(name.split(".")[0], ((module,), ""))
        assert any(covers(owner, module) for owner in owners), f"{module} imports {name}: that belongs in {place}"


@holds_for(sorted(MODULES))
def test_only_config_reads_the_environment(module: str) -> None:
    if module in ENVIRONMENT or module == "plugin.autoload":  # it looks before the package is imported
        return
    for node in ast.walk(tree_of(MODULES[module])):
        reads = isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv") and \
            isinstance(node.value, ast.Name) and node.value.id == "os"
        assert not reads, f"{module}:{getattr(node, 'lineno', 0)} reads the environment: add a field to StitchConfig"


STARTS_PROGRAMS = ("child_process",)
_OF_SUBPROCESS = ("TimeoutExpired", "CompletedProcess")
"""What does not start a program."""
_OF_OS = re.compile("system|popen|fork.*|exec[lv].*|spawn.*|posix_spawn.*")
_IN_CPP = re.compile(r"\b(?:v?fork|exec[lv]\w*|popen|system|posix_spawnp?)\s*\(")


def starts(tree: ast.AST) -> Iterator[int]:
    """Lines that start a program, or get at what does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner, name = node.value.id, node.attr
            if (owner == "subprocess" and name not in _OF_SUBPROCESS) or (owner == "os" and _OF_OS.fullmatch(name)):
                yield node.lineno
        elif isinstance(node, ast.Import):
            if any(alias.name.split(".")[0] in ("multiprocessing", "pty") for alias in node.names):
                yield node.lineno
        elif isinstance(node, ast.ImportFrom) and (
                (node.module or "").split(".")[0] in ("subprocess", "multiprocessing", "pty")
                or any(alias.name == "ProcessPoolExecutor" or (node.module == "os" and _OF_OS.fullmatch(alias.name))
                       for alias in node.names)):
            yield node.lineno


@pytest.mark.parametrize("module", sorted(MODULES))
def test_only_child_process_starts_programs(module: str) -> None:
    lines = [] if module in STARTS_PROGRAMS else list(starts(tree_of(MODULES[module])))
    assert not lines, (f"{module}:{lines[0]} starts a program: tf_stitch.child_process.run does so in a folder of its "
                       "own, and ends it with this process")


def test_no_cpp_starts_programs() -> None:
    found = [str(path) for path in sorted(PACKAGE.rglob("*")) if path.suffix in (".cc", ".h")
             and _IN_CPP.search(re.sub(r"//.*", "", path.read_text()))]
    assert not found


@pytest.mark.parametrize("line", ["subprocess.run(['x'])", "subprocess.Popen(['x'])", "os.system('x')", "os.fork()",
                                  "os.execvp('x', [])", "from subprocess import run", "import multiprocessing as m",
                                  "from concurrent.futures import ProcessPoolExecutor", "f = subprocess.check_output"])
def test_each_way_to_start_a_program_is_seen(line: str) -> None:
    assert list(starts(ast.parse(line))) == [1]
