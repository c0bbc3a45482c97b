"""Mutants of what serves converted models for months."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

OP = "tf_stitch/native/op"
COPIES = "tests/native/test_first_copy.py"
RELOADS = "tests/native/test_loaded_modules.py"
OWN_NODES = "tests/native/test_fallback_function.py"
SAVING = "tests/convert/test_attaching.py"
MEASURING = "tests/convert/test_measuring.py"
EQUAL = "tests/graph/shapes/test_equal_dimensions.py"

MUTANTS = (
    Mutant("each copy of the op library registers its executor", f"{OP}/callers_executor.cc",
           "if (found && IsFirstCopy()) tensorflow",
           "if (found) tensorflow",
           (f"{COPIES}::test_a_second_copy_registers_nothing_and_serves",)),
    Mutant("a second copy counts for itself", f"{OP}/exports.cc",
           "if (other != nullptr) return other(which);",
           "",
           (f"{COPIES}::test_a_second_copy_registers_nothing_and_serves",)),
    Mutant("a copy of another version is called", "tf_stitch/native/first_copy.py",
           "if sources is None or sources() != library.tfs_sources():",
           "if sources is None:",
           (f"{COPIES}::test_a_copy_of_another_version_is_not_called",)),
    Mutant("a module that nobody holds stays loaded", f"{OP}/loaded_modules.cc",
           "  known = {module, path, read, *error, ++all.clock};",
           "  known = {module, path, read, *error, ++all.clock};\n"
           "  static auto* kept = new std::map<std::string, std::shared_ptr<const AotModule>>;\n"
           "  (*kept)[digest] = module;",
           (f"{RELOADS}::test_versions_leave_nothing",)),
    Mutant("libraries of a module that is gone stay open", f"{OP}/aot_module.cc",
           "    dlclose(loaded.handle);\n",
           "",
           (f"{RELOADS}::test_versions_leave_nothing",)),
    Mutant("a module that was freed is not read again", f"{OP}/loaded_modules.cc",
           "  return LoadModule(digest, path, read, error);",
           '  *error = "it is gone";\n  return nullptr;',
           (f"{RELOADS}::test_kernels_come_back_after_tensorflow_has_freed_its_ops",)),
    Mutant("own nodes of a converted model are not optimized", f"{OP}/fallback_function.h",
           "RunPasses(function->attr().count(kUnoptimized) != 0 ? device : nullptr, function)",
           "RunPasses(nullptr, function)",
           (f"{OWN_NODES}::test_nodes_are_fused_as_the_original_s",)),
    Mutant("who waits for own nodes leaves them to the pool", f"{OP}/work_queue.h",
           "      changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });",
           "      changed_.wait(lock, [this] { return closed_; });",
           (f"{OWN_NODES}::test_clients_do_not_wait_for_each_other_s_threads",)),
    Mutant("the resource of the module cannot be made again", "tf_stitch/convert/attaching.py",
           'enumerate(("path", "_initialize", "_create_resource")):',
           'enumerate(("path", "_initialize")):',
           (f"{SAVING}::test_a_loaded_model_is_saved_again",)),
    Mutant("equal regions have verdicts of their own", "tf_stitch/convert/measuring.py",
           "    texts = [anonymous_text(region.graph) for r in rewritings for region in r.regions]\n    gained",
           "    texts = [str(i) for i, _ in enumerate(region for r in rewritings for region in r.regions)]\n    gained",
           (f"{MEASURING}::test_regions_that_lose_over_their_shapes_are_given_up",)),
    Mutant("equal signatures have times of their own", "tf_stitch/convert/measuring.py",
           "for other in kinds if kinds[other] == kind for log",
           "for other in kinds if other == name for log",
           (f"{MEASURING}::test_equal_signatures_have_one_time",)),
    Mutant("names tell models of one structure apart", "tf_stitch/convert/structure.py",
           "repr((node.op, edges, attrs))",
           "repr((node.name, node.op, edges, attrs))",
           ("tests/convert/test_structure.py::test_names_and_weights_make_no_difference",)),
    Mutant("an element of a list is no feed", "tf_stitch/graph/shapes/equal_dimensions.py",
           ', "TensorListGetItem")',
           ")",
           (f"{EQUAL}::test_an_element_of_a_list_has_the_sizes_of_what_it_meets",)),
)
