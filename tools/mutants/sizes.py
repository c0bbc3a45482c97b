"""Mutants of what is believed of sizes."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

MUTANTS = (
    Mutant("sizes that inference wrongly calls equal are believed", "tf_stitch/graph/shapes/doubted_sizes.py",
           "    if node.op in doubted_ops() or node.op in functions:\n",
           "    if node.op in functions:\n",
           ("tests/graph/shapes/test_branch_sizes.py",)),
    Mutant("a number that a doubted op's result met elsewhere is believed", "tf_stitch/graph/shapes/branch_sizes.py",
           "            _numbers_of(graph, _part(node.name, number), f\"{node.name}:{number}\", dtype, dims)\n",
           "            _add(graph, _part(node.name, number), \"Identity\", [f\"{node.name}:{number}\"], T=dtype)\n",
           ("tests/graph/shapes/test_branch_sizes.py",)),
    Mutant("a call of a doubted op is believed", "tf_stitch/graph/shapes/doubted_sizes.py",
           "    functions = _doubted_functions(graph_def.library.function)\n",
           "    functions = set[str]()\n",
           ("tests/graph/shapes/test_branch_sizes.py",)),
    Mutant("a fallback reads sizes where the rewrite does", "tf_stitch/graph/fallback/fallback_subgraph.py",
           "            self._given_sizes.restore(node, self._has)\n",
           "            pass\n",
           ("tests/graph/shapes/test_argument_sizes.py::test_a_fallback_reads_sizes_where_the_program_does",)),
)
