"""Mutants of what is believed of sizes."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

MUTANTS = (
    Mutant("sizes that inference wrongly calls equal are believed", "tf_stitch/graph/shapes/doubted_sizes.py",
           "    if node.op in ops or node.op in functions:\n",
           "    if node.op in functions:\n",
           ("tests/graph/shapes/test_branch_sizes.py",)),
    Mutant("a number that a doubted op's result met elsewhere is believed", "tf_stitch/graph/shapes/branch_sizes.py",
           "                _numbers_of(graph, part, f\"{node.name}:{number}\", dtype, dims)\n",
           "                _add(graph, part, \"Identity\", [f\"{node.name}:{number}\"], T=dtype)\n",
           ("tests/graph/shapes/test_branch_sizes.py",)),
    Mutant("numbers that inference computes with -1 are believed", "tf_stitch/graph/shapes/branch_sizes.py",
           "            if node.name in unknown:\n",
           "            if False:\n",
           ("tests/graph/shapes/test_branch_sizes.py",)),
    Mutant("an axis that is no constant counts as known", "tf_stitch/graph/shapes/branch_sizes.py",
           "    return any(place > 0 and dtype in _INTEGERS and ",
           "    return any(False and ",
           ("tests/graph/shapes/test_branch_sizes.py",)),
    Mutant("a gradient of another batch is believed", "tf_stitch/graph/shapes/branch_sizes.py",
           "        return len(ends) > 1 and ends[0] == ends[1] and -1 not in ends[0]\n",
           "        return True\n",
           ("tests/graph/shapes/test_branch_sizes.py",)),
    Mutant("a number that is wrong of known sizes is believed", "tf_stitch/graph/shapes/branch_sizes.py",
           "_may_be_wrong(node, types_of) or node.op in always_miscounted()\n",
           "_may_be_wrong(node, types_of)\n",
           ("tests/graph/shapes/test_branch_sizes.py",)),
    Mutant("what a run of the ops does not reach is believed", "tools/identities/table.py",
           "if op in not_reached}\n",
           "if False}\n",
           ("tests/tools/test_identities.py::test_what_a_run_does_not_reach_stays",)),
    Mutant("a call of a doubted op is believed", "tf_stitch/graph/shapes/doubted_sizes.py",
           "    functions = _functions_with(graph_def.library.function, ops)\n",
           "    functions = set[str]()\n",
           ("tests/graph/shapes/test_branch_sizes.py",)),
    Mutant("a fallback reads sizes where the rewrite does", "tf_stitch/graph/fallback/fallback_subgraph.py",
           "            self._given_sizes.restore(node, self._has)\n",
           "            pass\n",
           ("tests/graph/shapes/test_argument_sizes.py::test_a_fallback_reads_sizes_where_the_program_does",)),
)
