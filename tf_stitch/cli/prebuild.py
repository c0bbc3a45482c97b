"""`tf_stitch prebuild`: fills a cache folder, for container images and for clusters whose machines shall not compile.

  tf_stitch prebuild --cache=/opt/tf_stitch                       # native libraries alone
  tf_stitch prebuild --cache=/opt/tf_stitch train.py --steps=2    # and the kernels of a program, by running it
  tf_stitch prebuild --cache=/opt/tf_stitch saved_model --size=32 # and those of a SavedModel's signatures

Programs find it with TF_STITCH_CACHE=/opt/tf_stitch; it may be read-only for them. It serves machines with the same
processor or GPU, TensorFlow, and tf_stitch. A program gets kernels for the shapes that it meets: let it take the steps
that matter, each once. A signature is called once for each --size, which stands for the sizes that it leaves open.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from absl import flags

from tf_stitch import child_process
from tf_stitch.cli.cache import contents
from tf_stitch.cli.commands import parse
from tf_stitch.config import environment_with, load_config, set_variables
from tf_stitch.errors import StitchError

ROUNDS = 30
"""Calls of a signature: after 20 the profitability check times its regions, and keeps what it finds."""

_WAITING = {"TF_STITCH": "1", "TF_STITCH_ASYNC": "0", "TF_STITCH_FIRST_STEP_SECONDS": "0"}


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 where something could not be built."""
    values = flags.FlagValues()
    flags.DEFINE_string("cache", None, "folder to fill; the one in use by default", flag_values=values)
    flags.DEFINE_multi_integer("size", [], "of a SavedModel: stands for sizes that its signatures leave open; may be "
                               "repeated", lower_bound=1, flag_values=values)
    rest = parse("prebuild", __doc__, values, arguments, stop=True)
    program, sizes = rest[:1], values.size
    if program and Path(program[0]).is_dir():  # the flags may come behind it
        more = flags.FlagValues()
        flags.DEFINE_multi_integer("size", sizes, "", lower_bound=1, flag_values=more)
        rest = [*program, *parse("prebuild", __doc__, more, rest[1:])]
        sizes = more.size
    try:
        if values.cache:
            set_variables({"TF_STITCH_CACHE": str(Path(values.cache).expanduser().resolve())})
        folder = load_config().cache_dir.expanduser()
        _native(folder)
        code = 0
        if program:
            code = _saved_model(Path(program[0]), sizes or [1]) if Path(program[0]).is_dir() else _program(rest)
    except StitchError as error:
        print(f"tf_stitch prebuild: {error}", file=sys.stderr)
        return 1
    print("\n".join(contents(folder)))
    return code


def _native(folder: Path) -> None:
    """
    Raises:
        StitchError: there is no TensorFlow, or no compiler.
    """
    from tf_stitch.plugin.installed_tensorflow import find_tensorflow

    find_tensorflow()
    from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, build_library

    for library in (GRAPH_HOOK, STITCH_OP):
        build_library(library, folder)


def _program(program: Sequence[str]) -> int:
    """Steps wait for their kernels, however long that takes."""
    environment = environment_with(_WAITING)
    return child_process.run(child_process.program_under_tf_stitch(program), environment=environment,
                             folder=Path.cwd(), captured=False).returncode


def _saved_model(folder: Path, sizes: Sequence[int]) -> int:
    set_variables(_WAITING)
    import tensorflow as tf

    import tf_stitch

    tf_stitch.enable()
    try:
        model = tf.saved_model.load(str(folder))
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise StitchError(f"{folder} cannot be loaded as a SavedModel: {error}") from None
    failed = 0
    for name, signature in model.signatures.items():
        for size, feeds in _feeds(signature, sizes):
            try:
                for _ in range(ROUNDS):
                    signature(**feeds)
                print(f"{name}: built" + ("" if size is None else f" for {size}"))
            except tf.errors.OpError as error:  # sizes that do not go together, or values: zeros are not for all models
                print(f"tf_stitch prebuild: {name} with size {size}: {error.message}", file=sys.stderr)
                failed += 1
    return 1 if failed else 0


def _feeds(signature: Any, sizes: Sequence[int]) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """Zeros for a signature's inputs, for each size; once where it leaves none open."""
    import tensorflow as tf

    specs = signature.structured_input_signature[1]
    is_open = any(not spec.shape.is_fully_defined() for spec in specs.values())

    def zeros(spec: Any, size: int | None) -> Any:
        dims = spec.shape.as_list() if spec.shape.rank is not None else []
        return tf.zeros([size if dim is None else dim for dim in dims], spec.dtype)

    for size in sizes if is_open else [None]:
        yield size, {name: zeros(spec, size) for name, spec in specs.items()}
