"""Ops of lowered control flow, by what they do."""

SWITCHES = frozenset({"Switch", "RefSwitch", "_SwitchN"})
MERGES = frozenset({"Merge", "RefMerge"})
ENTERS = frozenset({"Enter", "RefEnter"})
EXITS = frozenset({"Exit", "RefExit"})
NEXT_ITERATIONS = frozenset({"NextIteration", "RefNextIteration"})

WHILES = frozenset({"While", "StatelessWhile"})
"""Loops as ops that call functions; TensorFlow lowers most before it places nodes."""
CONDITIONALS = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
"""The same for branches."""
CALLS = ("PartitionedCall", "StatefulPartitionedCall")
"""Calls of a function that an attribute names."""

BRANCHES_OR_LOOPS = SWITCHES | MERGES | ENTERS
"""A graph with branches or loops has one of these."""
