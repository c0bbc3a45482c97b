"""Prints measures of the tree: what somebody meets who wants to change it.

    python -m tools.structure                      the measures, each function above --complexity
    python -m tools.structure --way                also each place on the region's way

- *A region's way*: modules that a reader comes to who follows the whole region (a tensor graph, then a plan of its
  kernels) from `compile_region` to source, into each function that is given it when it is first called, and back to
  who called; a return is a place in a module that the way had left. Returns to the pass manager are those to a list
  that is read from top to bottom. The region is the largest of --model on an H200.
- *Complexity* (cyclomatic): one, and one for each branch, loop, handler, assertion, condition of a comprehension, and
  each further operand of `and` and `or`; functions inside count too.
- *Upward imports*: imports of a part by one below it, by the order in tests/architecture/test_imports.py.
- *Variables*: rows of docs/environment.md.
- *Numbers in code*: names at the top of modules that are made of numbers, by part; and how many of them a docstring
  says were measured on a device, which belong in its profile (tf_stitch/device/).
- *Files of a change*: what each tutorial makes or edits, in the product and beside it.
"""

from __future__ import annotations

import ast
import gzip
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from absl import app, flags

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tf_stitch"
ZOO = ROOT / "tests" / "planning" / "graphs" / "zoo"

_COMPLEXITY = flags.DEFINE_integer("complexity", 15, "functions above it are listed")
_MODEL = flags.DEFINE_string("model", "word2vec_train", "whose region is followed, of tests/planning/graphs/zoo")
_WAY = flags.DEFINE_bool("way", False, "list the places of the region's way")

LIST = "pass_manager"
"""The module that runs lists of passes."""
_BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.Assert, ast.match_case)
_MEASURED = re.compile(r"\bmeasured\b|\bH200\b|\bmicroseconds\b|\bus\b|\btook\b|\btakes \d", re.I)
"""What a docstring says of a number that was measured on a device."""
_TOUCHED = re.compile(r"^(?:#|//|---) ([\w/.]+\.\w+)$", re.M)
"""A file that a tutorial makes, or edits."""


@dataclass(frozen=True)
class Way:
    """
    Attributes:
        functions: what is given the region, as "module: function", in the order of first calls.
        modules: which the way comes to, one after the other.
    """

    functions: tuple[str, ...]
    modules: tuple[str, ...]

    @property
    def returns(self) -> int:
        return len(self.modules) - len(set(self.modules))

    @property
    def returns_to_lists(self) -> int:
        """Returns to the pass manager."""
        return max(0, self.modules.count(LIST) - 1)


def main(_: Sequence[str]) -> None:
    way = region_way(_MODEL.value)
    print(f"a region's way: {len(way.modules)} places in {len(set(way.modules))} modules, {way.returns} returns, "
          f"{way.returns_to_lists} of them to lists of passes; {len(way.functions)} functions")
    if _WAY.value:
        print(*(f"  {function}" for function in way.functions), sep="\n")
    complex_ones = [found for found in complexities(PACKAGE) if found[0] > _COMPLEXITY.value]
    print(f"complexity above {_COMPLEXITY.value}: {len(complex_ones)} functions")
    print(*(f"  {count} {where}" for count, where in complex_ones), sep="\n")
    upward = upward_imports()
    print(f"upward imports: {len(upward)}", *upward, sep="\n  ")
    print(f"variables in docs/environment.md: {variables()}")
    numbers = all_module_numbers()
    print(f"numbers in code: {sum(names(ones) for ones in numbers.values())}, of these claimed to be measured: "
          f"{sum(names(one for one in ones if one.claimed) for ones in numbers.values())}")
    for part, ones in sorted(numbers.items(), key=lambda item: -names(item[1])):
        print(f"  {names(ones):3} {part}, {names(one for one in ones if one.claimed)} measured")
    print("files of a change:")
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.md")):
        product, others = files_of(page.read_text())
        print(f"  {page.stem}: {len(product)} of the product ({', '.join(product)}), {len(others)} others")


def region_way(model: str) -> Way:
    """The way of a model's largest region."""
    from tf_stitch.compiler.kernel_plan import KernelPlan
    from tf_stitch.compiler.options import CompileOptions
    from tf_stitch.compiler.pipeline import compile_region
    from tf_stitch.device.spec import H200
    from tf_stitch.ir.arguments import arguments_of
    from tf_stitch.ir.graph import TensorGraph
    from tf_stitch.ir.text_parser import parse_graphs
    from tf_stitch.placement.buffer_plan import BufferPlan
    from tf_stitch.planning.stitch_plan import StitchPlan

    graphs = parse_graphs(gzip.decompress((ZOO / f"{model}.region.txt.gz").read_bytes()).decode())
    graph = max(graphs, key=lambda graph: len(list(graph.nodes())))
    arguments = arguments_of(graph)
    carriers = (TensorGraph, StitchPlan, KernelPlan, BufferPlan)
    return followed(lambda: compile_region(graph, *arguments, CompileOptions(H200)), carriers, PACKAGE)


def followed(run: Callable[[], Any], carriers: tuple[type, ...], package: Path) -> Way:
    """The way of values of these types while `run` runs, through functions of a package. Methods of the values are no
    places."""
    own = {sys.modules[kind.__module__].__file__ for kind in carriers}
    functions: dict[str, None] = {}
    modules: list[str] = []
    open_calls: list[tuple[Any, str, bool]] = []  # frame, module, whether it is the function's first call

    def come_to(module: str) -> None:
        if modules[-1:] != [module]:
            modules.append(module)

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "return" and open_calls and open_calls[-1][0] is frame:
            *_, is_first = open_calls.pop()
            if is_first and open_calls:
                come_to(open_calls[-1][1])
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(package)) or code.co_filename in own \
                or code.co_name.startswith(("<", "__")):
            return
        names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
        if any(isinstance(frame.f_locals.get(name), carriers) for name in names):
            module = str(Path(code.co_filename).relative_to(package).with_suffix("")).replace("/", ".")
            function = f"{module}: {code.co_qualname}"
            open_calls.append((frame, module, function not in functions))
            if function not in functions:
                functions[function] = None
                come_to(module)

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return Way(tuple(functions), tuple(modules))


def complexities(package: Path) -> list[tuple[int, str]]:
    """Cyclomatic complexity and place of each function, the most complex first."""
    found = []
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((complexity(node), f"{path.relative_to(package.parent)}:{node.lineno} {node.name}"))
    return sorted(found, key=lambda one: (-one[0], one[1]))


def complexity(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Of one function; see above."""
    count = 1
    for node in ast.walk(function):
        if isinstance(node, _BRANCHES):
            count += 1
        elif isinstance(node, ast.comprehension):
            count += 1 + len(node.ifs)
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
    return count


def upward_imports() -> list[str]:
    """Each as "part imports module"."""
    from tests.architecture.test_imports import ALLOWED, EVERYONE, MODULES, imports, part_of, tree_of

    order = {part: place for place, part in enumerate(ALLOWED) if part not in EVERYONE}

    def upward() -> Iterator[str]:
        for module, path in MODULES.items():
            part = part_of(module)
            for name in sorted(set(imports(tree_of(path)))):
                other = part_of(name.removeprefix("tf_stitch."))
                if part in order and name.startswith("tf_stitch.") and order.get(other, -1) > order[part]:
                    yield f"{module} imports {name}"

    return list(upward())


def variables() -> int:
    """Rows of the table of environment variables."""
    return len(re.findall(r"^\| `TF_STITCH", (ROOT / "docs" / "environment.md").read_text(), re.M))


def files_of(page: str) -> tuple[list[str], list[str]]:
    """Files that a tutorial makes or edits: in tf_stitch/, and elsewhere."""
    files = list(dict.fromkeys(_TOUCHED.findall(page)))
    return ([name for name in files if name.startswith("tf_stitch/")],
            [name for name in files if not name.startswith("tf_stitch/")])


@dataclass(frozen=True)
class ModuleNumber:
    """Numbers that stand at the top of a module.

    Attributes:
        names: "module.NAME", of those that one docstring is about.
        claimed: the docstring says that they were measured.
    """

    names: tuple[str, ...]
    claimed: bool


def module_numbers(module: str, text: str) -> Iterator[ModuleNumber]:
    """Constants of a module that are made of numbers, each with the docstring behind it, or behind its neighbours."""
    names: list[str] = []
    for statement in [*ast.parse(text).body, ast.Pass()]:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            if names:
                yield ModuleNumber(tuple(names), bool(_MEASURED.search(str(statement.value.value))))
            names = []
        elif _is_number(statement):
            assert isinstance(statement, ast.Assign | ast.AnnAssign)
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names += [f"{module}.{node.id}" for target in targets for node in ast.walk(target)
                      if isinstance(node, ast.Name)]
        elif names:
            yield ModuleNumber(tuple(names), claimed=False)
            names = []


def _is_number(statement: ast.stmt) -> bool:
    """Whether a constant is made of numbers, in whatever holds them; not of True and False alone."""
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    return value is not None and not isinstance(value, ast.Call | ast.JoinedStr) and any(
        isinstance(node, ast.Constant) and type(node.value) in (int, float) for node in ast.walk(value)) and not any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) for node in ast.walk(value))


def names(numbers: Iterable[ModuleNumber]) -> int:
    """How many names there are."""
    return sum(len(one.names) for one in numbers)


def all_module_numbers() -> dict[str, list[ModuleNumber]]:
    """Part of the package -> the numbers at the top of its modules."""
    found: dict[str, list[ModuleNumber]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found.setdefault(module.partition(".")[0], []).extend(module_numbers(module, path.read_text()))
    return found


if __name__ == "__main__":
    app.run(main)
