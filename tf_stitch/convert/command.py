"""`tf_stitch convert`: makes a SavedModel that carries its kernels with it. It is loaded like any other, by a process
that has the op library; no Python, no planner and no compiler is needed there.

Look first what would be converted, then convert, then check the result where it is to run:

  tf_stitch convert --input_dir=model --dry_run
  tf_stitch convert --input_dir=model --output_dir=converted --input_ranges=batch=1:32
  tf_stitch convert --verify_only=converted

Shapes. Kernels are for certain shapes. Where the model leaves a dimension open, --input_ranges=batch=1:32 says which
sizes get kernels, and --input_shapes=x=batch,128 gives dimensions their names and sizes; --buckets=batch=1,8,32 names
single sizes. A line says which shapes have kernels, another what to tell a server that batches. Every other shape runs
the model's own TensorFlow ops: it works, and is not faster.

Devices. --target=cpu builds for x86-64, AVX2 and AVX-512; --target=cpu,cuda:sm_90 for GPUs of that kind and later, too.

What it prints. "21 ops: 19 in 2 kernels, 0 library calls, 2 left (2 MatMul is a library call too large for a region)":
of 21 ops that compute something 19 are in 2 kernels, and 2 stay as they are, for the reasons in brackets.
"16 runs like the original": both models ran on the same inputs, and no output differs by more than --tolerance allows.

Exit codes: 0 converted (or verified, or a dry run); 1 the model cannot be converted, or the converted one differs from
the original, and nothing is written; 2 the flags make no sense; 130 interrupted, and nothing is written.

Everything else: docs/converting.md.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path

from absl import flags

from tf_stitch.config import load_config, quiet_tensorflow
from tf_stitch.convert.paths import check_paths
from tf_stitch.errors import ConvertError, ConvertFlagError, StitchError

OK, REFUSED, USAGE, INTERRUPTED = 0, 1, 2, 130


def _define() -> flags.FlagValues:
    values = flags.FlagValues()

    def text(name: str, default: str | None, help: str) -> None:
        flags.DEFINE_string(name, default, help, flag_values=values)

    text("input_dir", None, "directory of the SavedModel to convert; it is only read")
    text("output_dir", None, "directory for the converted model")
    text("signatures", "", "names of the signatures to convert, with commas between; all if empty")
    text("target", "cpu", "what to build kernels for, with commas between: cpu (a baseline, AVX2 and AVX-512), "
         "cuda:sm_90 and the like")
    flags.DEFINE_multi_string("input_shapes", [], "shape of an input with unknown dimensions, as input=8,128 or with "
                              "names as input=batch,128; may be repeated", flag_values=values)
    flags.DEFINE_multi_string("input_ranges", [], "sizes of a named dimension that get kernels, as batch=1:32; the "
                              "first dimension of an input is named batch, others input_1, input_2, ... unless "
                              "--input_shapes names them; may be repeated", flag_values=values)
    flags.DEFINE_multi_string("buckets", [], "sizes of a named dimension that get kernels, one by one, as "
                              "batch=1,8,32; several flags make a grid; may be repeated", flag_values=values)
    text("samples", "", "file of real inputs, .npz (arrays named input or signature/input) or TFRecord of "
         "tf.train.Example; the converted model has kernels for their shapes and is checked on them")
    flags.DEFINE_enum("scope", "auto", ["auto", "ops", "region"], "what regions hold: memory-intensive ops alone, all "
                      "matmuls too, or what is best on each kind of device", flag_values=values)
    flags.DEFINE_float("tolerance", 1.0, "factor on the bounds that outputs have to keep to (float32: 1e-4, relative "
                       "to the value and the mean magnitude)", lower_bound=0.0, flag_values=values)
    text("report", "", "file for the report, JSON: what became of each node, times, the certificate")
    flags.DEFINE_boolean("copy_library", False, "put the op library, which a server loads, into --output_dir, for all "
                         "to read", flag_values=values)
    text("op_library", "", "shared libraries of custom ops that the model uses, with commas between")
    flags.DEFINE_boolean("dry_run", False, "only say what would be converted", flag_values=values)
    flags.DEFINE_boolean("overwrite", False, "replace --output_dir if it exists", flag_values=values)
    flags.DEFINE_boolean("measure", True, "give regions up that are slower than the TensorFlow ops they replace",
                         flag_values=values)
    text("verify_only", "", "directory of a converted model: check it against its original again")
    flags.DEFINE_boolean("help", False, "show this", flag_values=values, short_name="h")
    return values


def main(argv: Sequence[str]) -> int:
    """Converts, and returns the exit code.

    Args:
        argv: flags, without the program's name.
    """
    values = _define()
    try:
        rest = values(["convert", *argv])[1:]
        if values.help:
            print(f"{__doc__}\nFlags:\n{values.get_help()}")
            return OK
        if rest:
            raise flags.Error(f"{rest[0]} is no flag: name the model by --input_dir")
        _check(values)
    except flags.Error as error:
        print(f"tf_stitch convert: {error}; --help says more", file=sys.stderr)
        return USAGE
    try:
        return _run(values)
    except KeyboardInterrupt:
        print("tf_stitch convert: interrupted; nothing was written", file=sys.stderr)
        return INTERRUPTED
    except ConvertFlagError as error:
        print(f"tf_stitch convert: {error}; --help says more", file=sys.stderr)
        return USAGE
    except StitchError as error:
        print(f"tf_stitch convert: {error}", file=sys.stderr)
        return REFUSED


def _check(values: flags.FlagValues) -> None:
    """
    Raises:
        flags.Error: a flag is missing, or two contradict each other.
    """
    if values.copy_library and (values.dry_run or values.verify_only):
        raise flags.Error("--copy_library needs a conversion")
    doubly = {text.partition("=")[0].strip() for text in values.buckets} & \
        {text.partition("=")[0].strip() for text in values.input_ranges}
    if doubly:
        raise flags.Error(f"--buckets and --input_ranges both name {', '.join(sorted(doubly))}")
    if values.verify_only:
        if values.input_dir or values.output_dir:
            raise flags.Error("--verify_only takes no --input_dir and no --output_dir")
    elif not isfinite(values.tolerance):
        raise flags.Error("--tolerance is not a finite number")
    elif not values.input_dir:
        raise flags.Error("--input_dir is missing")
    elif not values.output_dir and not values.dry_run:
        raise flags.Error("--output_dir is missing (or --dry_run)")


def _run(values: flags.FlagValues) -> int:
    """As main, of flags that make sense. TensorFlow is imported here, not for --help.

    Raises:
        StitchError: it cannot be done.
    """
    if not values.verify_only:
        check_paths(Path(values.input_dir), None if values.dry_run else Path(values.output_dir), values.overwrite)
    quiet_tensorflow()
    import tensorflow as tf

    from tf_stitch.convert.conversion import DifferenceError, convert
    from tf_stitch.convert.folder import copy_library
    from tf_stitch.convert.options import Options
    from tf_stitch.convert.progress import Progress
    from tf_stitch.convert.sizes import Asked, parse_buckets, parse_ranges, parse_shapes
    from tf_stitch.native.bindings import load_op
    from tf_stitch.native.build import STITCH_OP, build_library, is_portable

    for library in filter(None, values.op_library.split(",")):
        try:
            tf.load_op_library(library)
        except (OSError, tf.errors.OpError) as error:
            raise ConvertError(f"--op_library={library} cannot be loaded: {error}") from None
    config = replace(load_config(), enabled=False)
    asked = Asked(parse_shapes(values.input_shapes), parse_ranges(values.input_ranges), parse_buckets(values.buckets))
    if values.verify_only:
        return _verify(Path(values.verify_only), Path(values.samples) if values.samples else None)
    options = Options(
        Path(values.input_dir or "."), Path(values.output_dir or "."), _names(values.signatures), _names(values.target),
        asked, Path(values.samples) if values.samples else None, values.scope, values.tolerance,
        Path(values.report) if values.report else None, values.overwrite, values.measure)
    _check_report(options.report)
    try:
        outcome = convert(options, config, Progress(), values.dry_run)
    except DifferenceError as error:
        _write_report(options.report, {**error.outcome.document, "problem": error.message})
        raise
    _write_report(options.report, outcome.document)
    for remark in outcome.remarks:
        print(f"note: {remark}")
    print(*outcome.sizes, sep="\n")
    print(outcome.coverage)
    if not values.dry_run:
        print(f"{options.target}: {len(outcome.checked)} runs like the original")
        library = load_op(config.cache_dir).path  # another one only where this process had it before
        if not is_portable(STITCH_OP, library):
            library = build_library(STITCH_OP, config.cache_dir, portable=True)
        if values.copy_library:
            library = copy_library(library, options.target)
        print(f"load it after tf.load_op_library({str(library)!r}), or a copy of that file")
    return OK


def _check_report(file: Path | None) -> None:
    """
    Raises:
        ConvertError: it cannot be written; better said before a conversion than after.
    """
    if file is not None and (file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK)):
        raise ConvertError(f"--report={file} cannot be written: give a file in a folder that exists and is yours")


def _write_report(file: Path | None, document: Mapping[str, object]) -> None:
    """
    Raises:
        ConvertError: it cannot be written.
    """
    if file is None:
        return
    try:
        file.write_text(json.dumps(document, indent=1))
    except OSError as error:
        raise ConvertError(f"--report={file} cannot be written: {error.strerror}") from None


def _verify(path: Path, samples: Path | None) -> int:
    """Raises:
        StitchError: it cannot be verified.
    """
    from tf_stitch.convert.certificate import failure
    from tf_stitch.convert.progress import Progress
    from tf_stitch.convert.verification import verify
    from tf_stitch.native.bindings import load_op

    progress = Progress()
    load_op(load_config().cache_dir)
    progress.step(f"verifying {path}")
    checked, remarks = verify(path, samples, progress.part)
    for remark in remarks:
        print(f"note: {remark}")
    bad = [one for one in checked if not one.passes]
    print(f"{path}: {len(checked) - len(bad)} of {len(checked)} runs like the original")
    if bad:
        print(f"tf_stitch convert: {failure(bad[0])}", file=sys.stderr)
    return REFUSED if bad else OK


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
