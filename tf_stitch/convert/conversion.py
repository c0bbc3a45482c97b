"""The table of contents: how a SavedModel is converted."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.saved_model import fingerprinting_utils

from tf_stitch.config import StitchConfig
from tf_stitch.convert.attaching import ASSET, attach_module
from tf_stitch.convert.attempt import Attempt, Trials
from tf_stitch.convert.built_sizes import built_sizes, size_lines
from tf_stitch.convert.certificate import Checked, check, document, failure
from tf_stitch.convert.coverage import Coverage, coverage
from tf_stitch.convert.draft import rewritten
from tf_stitch.convert.folder import copy_model, own_folder, staged
from tf_stitch.convert.gradients import drop_gradients
from tf_stitch.convert.locating import first_difference
from tf_stitch.convert.module_file import Module, ir_hashes
from tf_stitch.convert.named_variables import name_variables
from tf_stitch.convert.options import Options
from tf_stitch.convert.paths import CERTIFICATE, GRAPH_FILE, MANIFEST, ORIGINAL, check_paths
from tf_stitch.convert.plan import Task, form_regions, read_task
from tf_stitch.convert.progress import Progress
from tf_stitch.convert.running import Loaded
from tf_stitch.errors import ConvertError
from tf_stitch.native.bindings import OpLibrary, load_op
from tf_stitch.runtime.cache_key import package_digest
from tf_stitch.runtime.host_builder import compiler_version
from tf_stitch.runtime.nvrtc_builder import nvrtc_version
from tf_stitch.version import __version__

MODULE_FILE = f"{ASSET}.bin"


@dataclass(frozen=True)
class Converted:
    """What became of a model.

    Attributes:
        sizes: lines that say which shapes have kernels.
        checked: by the certificate; none of a dry run.
        document: the report.
    """

    coverage: Coverage
    remarks: tuple[str, ...]
    sizes: tuple[str, ...]
    checked: tuple[Checked, ...]
    document: Mapping[str, Any]

    @property
    def passes(self) -> bool:
        return all(one.passes for one in self.checked)


class DifferenceError(ConvertError):
    """The converted model differs from the original: it is not written.

    Attributes:
        outcome: what would have been.
    """

    def __init__(self, outcome: Converted, where: str) -> None:
        super().__init__(f"the model is not written: {where}")
        self.outcome = outcome


def convert(options: Options, config: StitchConfig, progress: Progress, dry_run: bool = False) -> Converted:
    """Converts a model and writes it, if it keeps to the certificate's bounds.

    Raises:
        ConvertError: it cannot be converted; nothing is written.
        StitchError: a compiler is missing, or rejected a kernel.
    """
    config = replace(config, scope=options.scope)
    check_paths(options.source, None if dry_run else options.target, options.overwrite)
    library = load_op(config.cache_dir, portable=not dry_run)  # the models go to other machines, and it with them
    progress.step(f"reading {options.source}")
    task = read_task(options, config)
    if dry_run:
        attempt = Attempt(form_regions(task, config, progress), [])
        progress.step("")
        return _outcome(options, attempt, [], progress)
    with staged(options.target, options.overwrite) as folder, Loaded(task.model.path, task.model.tags) as original:
        attempt = Trials(options, config, task, original, library, folder.parent, progress).best()
        module = Module(len(attempt.plan.places))
        for built in attempt.kernels:
            module.add(built, attempt.given_up)
        progress.step(f"writing {options.target}")
        _write(attempt, module, folder)
        progress.step("running the original and the converted model on the same inputs")
        checked = _checked(task, folder, original, options, progress)
        progress.step("")
        outcome = _outcome(options, attempt, checked, progress)
        own = own_folder(folder)
        (own / CERTIFICATE).write_text(json.dumps(document(checked, options.tolerance), indent=1))
        if not outcome.passes:
            raise DifferenceError(outcome, _where_it_differs(attempt, checked, options, library, folder.parent))
    return outcome


def _checked(task: Task, folder: Path, original: Loaded, options: Options, progress: Progress) -> list[Checked]:
    """The certificate's cases: on the CPU, and on GPUs where kernels for one were built."""
    found = []
    if any(not target.on_gpu for target in task.targets):
        with Loaded(folder, task.model.tags) as converted:
            found += check(original, converted, task.signatures, task.cases, options.tolerance, progress.part)
    if any(target.on_gpu for target in task.targets):
        if not tf.config.list_physical_devices("GPU"):
            task.remarks.append("no GPU on this machine: kernels for GPUs were built, not run; --verify_only runs them")
            return found
        with Loaded(folder, task.model.tags, gpu=True) as converted, \
                Loaded(task.model.path, task.model.tags, gpu=True) as theirs:
            found += check(theirs, converted, task.signatures, task.cases, options.tolerance, progress.part)
    return found


def _where_it_differs(attempt: Attempt, checked: Sequence[Checked], options: Options, library: OpLibrary,
                      scratch: Path) -> str:
    plan, task = attempt.plan, attempt.plan.task
    bad = next(one for one in checked if not one.passes)
    signature = next(s for s in task.signatures if s.name == bad.case.signature)
    words = failure(bad)
    for built in attempt.kernels:
        if not built.target.on_gpu:
            node = first_difference(task.model, plan.rewritings, built, signature, bad.case, options.tolerance, library,
                                    scratch)
            words += f". The first node that differs is {node}" if node else ""
    return words


def _write(attempt: Attempt, module: Module, folder: Path) -> None:
    """
    Raises:
        ConvertError: the disk is full.
    """
    try:
        _write_files(attempt, module, folder)
    except OSError as error:
        raise ConvertError(f"the model cannot be written to {folder.parent.parent} ({error.strerror or error}): free "
                           "disk space, or give another --output_dir") from None


def _write_files(attempt: Attempt, module: Module, folder: Path) -> None:
    data = module.data()
    plan, model = attempt.plan, attempt.plan.task.model
    proto = rewritten(model, plan.rewritings, 0, module.digest)
    meta = proto.meta_graphs[model.place]
    drop_gradients(meta, {r.body.name for r in plan.rewritings if r.taken and r.body.source is not None})
    file = _free_name(model.path / "assets")
    name_variables(meta, plan.task.signatures)
    attach_module(meta, file, module.digest)
    copy_model(model.path, proto, folder)
    (folder / "assets").mkdir(exist_ok=True)
    (folder / "assets" / file).write_bytes(data)
    _write_fingerprint(folder)
    own = own_folder(folder)
    (own / ORIGINAL).write_bytes((model.path / GRAPH_FILE).read_bytes())
    (own / MANIFEST).write_text(json.dumps(_manifest(attempt, module, file, data), indent=1))


def _free_name(assets: Path) -> str:
    name, i = MODULE_FILE, 0
    while (assets / name).exists():
        i += 1
        name = f"{ASSET}_{i}.bin"
    return name


def _write_fingerprint(folder: Path) -> None:
    """As the graph is another now; of a model that had one."""
    file = folder / "fingerprint.pb"
    if file.exists():
        file.unlink()
        with suppress(ValueError, RuntimeError, tf.errors.OpError):
            fingerprinting_utils.write_fingerprint(str(folder))


def _manifest(attempt: Attempt, module: Module, file: str, data: bytes) -> dict[str, Any]:
    plan = attempt.plan
    return {"tf_stitch": __version__, "package": package_digest(), "tensorflow": tf.__version__,
            "python": platform.python_version(), "module": f"assets/{file}",
            "module_sha256": hashlib.sha256(data).hexdigest(),
            "module_sha256_of_head": module.digest, "kernels": module.hashes(),
            "targets": [{"name": k.target.name, "levels": {str(n): text for n, text in k.target.levels.items()},
                         "compiler": f"NVRTC {nvrtc_version()}" if k.target.on_gpu else compiler_version()}
                        for k in attempt.kernels],
            "shapes": built_sizes(plan.task.cases), "scope": plan.scope,
            "signatures": [s.name for s in plan.task.signatures],
            "regions": ir_hashes([r for rewriting in plan.rewritings for r in rewriting.regions])}


def _outcome(options: Options, attempt: Attempt, checked: Sequence[Checked], progress: Progress) -> Converted:
    plan, kernels = attempt.plan, attempt.kernels
    covered = coverage(plan.rewritings, kernels)
    failed = sorted({reason for built in kernels for reason in built.failed.values()})
    remarks = [*plan.task.remarks, *attempt.remarks, *(f"no kernels for some shapes: {reason}" for reason in failed)]
    nodes = {r.body.name: {"left": {n.name: r.left_out[n.name] for n in r.body.graph_def.node if n.name in r.left_out},
                           "regions": [list(region.members) for region in r.regions]} for r in plan.rewritings}
    report = {"tf_stitch": __version__, "source": str(options.source), "target": str(options.target),
              "shapes": built_sizes(plan.task.cases), "scope": plan.scope,
              "coverage": str(covered), "counts": covered.as_json(), "remarks": remarks,
              "functions": nodes,
              "seconds": {name: round(s, 3) for name, s in progress.seconds.items()},
              "certificate": document(checked, options.tolerance)}
    sizes = size_lines(plan.task.signatures, built_sizes(plan.task.cases))
    return Converted(covered, tuple(remarks), tuple(sizes), tuple(checked), report)

