"""Mutants of what checks graphs and modules that come from elsewhere."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

OP = "tf_stitch/native/op"
REGIONS = "tests/native/test_region_names.py"
MODULES = "tests/convert/test_module_file.py"
WORDS = ("tests/tools/test_native_words.py",)

MUTANTS = (
    Mutant("matmuls need not fit their operands", f"{OP}/executable.cc",
           "Require(bytes[i] <= Room(step.args[i]),",
           "Require(bytes[i] <= Room(step.args[i]) || true,",
           WORDS),
    Mutant("any number of a module's words is an address", f"{OP}/executable.cc",
           "Require(word >= kReference && (word - kReference) / kReferenceKind == kind,",
           "Require((word - kReference) / kReferenceKind == kind || true,",
           WORDS),
    Mutant("an operand lies in the segment before its own", f"{OP}/executable.cc",
           "std::upper_bound(segment_ends_.begin(), segment_ends_.end(), offset)",
           "std::lower_bound(segment_ends_.begin(), segment_ends_.end(), offset)",
           WORDS),
    Mutant("a graph from elsewhere names regions of this process", f"{OP}/region_names.h",
           "if (wanted == 0 || token == wanted) return",
           "if (true) return",
           (f"{REGIONS}::test_a_graph_from_elsewhere_is_refused",)),
    Mutant("a number beyond all regions is one of a module", f"{OP}/region_names.h",
           "if (region < 0 || region >= kFirstConvertedRegion)",
           "if (region < 0)",
           (f"{REGIONS}::test_numbers_of_no_region_are_refused",)),
    Mutant("links lead out of the folders that modules come from", f"{OP}/module_file.cc",
           "Refuse(file.Place())",
           "Refuse(path)",
           (f"{MODULES}::test_modules_come_from_allowed_folders_alone",)),
    Mutant("a folder's name is the beginning of another's", f"{OP}/module_file.cc",
           'place.compare(0, found.size() + 1, found + "/") == 0',
           "place.compare(0, found.size(), found) == 0",
           (f"{MODULES}::test_modules_come_from_allowed_folders_alone",)),
    Mutant("a module may have any size", f"{OP}/module_file.cc",
           "if (found.stx_size > std::uint64_t{kMostModuleBytes}) {",
           "if (false) {",
           (f"{MODULES}::test_what_is_no_file_of_a_possible_size_is_not_read",)),
)
