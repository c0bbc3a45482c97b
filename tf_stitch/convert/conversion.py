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
from tf_stitch.convert.certificate import Checked, check, document, failure, run_original
from tf_stitch.convert.coverage import Coverage, coverage
from tf_stitch.convert.draft import loaded_draft, rewritten
from tf_stitch.convert.entries import bodies
from tf_stitch.convert.folder import check_apart, check_target, copy_model, own_folder, staged
from tf_stitch.convert.gradients import drop_gradients
from tf_stitch.convert.inputs import Case, generated, samples
from tf_stitch.convert.kernels import AheadBuilder, Kernels
from tf_stitch.convert.locating import first_difference
from tf_stitch.convert.measuring import SLOWER, slower_regions, slower_signatures
from tf_stitch.convert.module_file import Module, ir_hashes
from tf_stitch.convert.named_variables import name_variables
from tf_stitch.convert.options import Options
from tf_stitch.convert.progress import Progress
from tf_stitch.convert.recording import Recorder
from tf_stitch.convert.rewriting import NEVER_RAN, Rewriting, rewriting_of
from tf_stitch.convert.running import Loaded
from tf_stitch.convert.saved_model import CERTIFICATE, GRAPH_FILE, MANIFEST, ORIGINAL, Model, Signature, read_model
from tf_stitch.convert.sizes import check_names, shapes_of
from tf_stitch.convert.stored_runs import StoredShapes, StoredVerdicts, Verdicts
from tf_stitch.convert.targets import BuildTarget, parse_targets
from tf_stitch.errors import ConvertError
from tf_stitch.jit.shape_family import Shapes
from tf_stitch.native.bindings import OpLibrary, load_op
from tf_stitch.runtime.cache_key import package_digest
from tf_stitch.runtime.device_profiles import profiles
from tf_stitch.runtime.host_builder import compiler, compiler_version
from tf_stitch.runtime.nvrtc_builder import nvrtc_version
from tf_stitch.version import __version__

MODULE_FILE = f"{ASSET}.bin"


@dataclass(frozen=True)
class Converted:
    """What became of a model.

    Attributes:
        checked: by the certificate; none of a dry run.
        document: the report.
    """

    coverage: Coverage
    remarks: tuple[str, ...]
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


@dataclass
class _Plan:
    """What is known before anything is built."""

    model: Model
    signatures: list[Signature]
    targets: list[BuildTarget]
    cases: list[Case]
    rewritings: list[Rewriting]
    remarks: list[str]

    @property
    def places(self) -> list[tuple[Rewriting, int]]:
        """Of each region its function, and its place there; regions are numbered by theirs here."""
        return [(r, i) for r in self.rewritings for i in range(len(r.regions))]


def convert(options: Options, config: StitchConfig, progress: Progress, dry_run: bool = False) -> Converted:
    """Converts a model and writes it, if it keeps to the certificate's bounds.

    Raises:
        ConvertError: it cannot be converted; nothing is written.
        StitchError: a compiler is missing, or rejected a kernel.
    """
    config = replace(config, scope=options.scope)
    if not dry_run:
        check_apart(options.source, options.target)
        check_target(options.target, options.overwrite)
    library = load_op(config.cache_dir)
    progress.step(f"reading {options.source}")
    plan = _plan(options, config, progress)
    if dry_run:
        progress.step("")
        return _outcome(options, plan, [], [], progress)
    with staged(options.target, options.overwrite) as folder, Loaded(plan.model.path, plan.model.tags) as original:
        progress.step("running the model, to see its regions' shapes")
        wanted = _shapes_of_regions(plan, config, library, folder.parent, progress)
        kernels = _build(plan, wanted, config, progress)
        given_up = _give_up(options, config, plan, kernels, original, library, folder.parent, progress)
        module = Module(len(plan.places))
        for built in kernels:
            module.add(built, given_up)
        progress.step(f"writing {options.target}")
        _write(plan, module, kernels, folder)
        progress.step("running the original and the converted model on the same inputs")
        checked = _checked(plan, folder, original, options, progress)
        progress.step("")
        outcome = _outcome(options, plan, kernels, checked, progress)
        own = own_folder(folder)
        (own / CERTIFICATE).write_text(json.dumps(document(checked, options.tolerance), indent=1))
        if not outcome.passes:
            raise DifferenceError(outcome, _where_it_differs(plan, kernels, checked, options, library, folder.parent))
    return outcome


def _checked(plan: _Plan, folder: Path, original: Loaded, options: Options, progress: Progress) -> list[Checked]:
    """The certificate's cases: on the CPU, and on GPUs where kernels for one were built."""
    found = []
    if any(not target.on_gpu for target in plan.targets):
        with Loaded(folder, plan.model.tags) as converted:
            found += check(original, converted, plan.signatures, plan.cases, options.tolerance, progress.part)
    if any(target.on_gpu for target in plan.targets):
        if not tf.config.list_physical_devices("GPU"):
            plan.remarks.append("no GPU on this machine: kernels for GPUs were built, not run; --verify_only runs them")
            return found
        with Loaded(folder, plan.model.tags, gpu=True) as converted, \
                Loaded(plan.model.path, plan.model.tags, gpu=True) as theirs:
            found += check(theirs, converted, plan.signatures, plan.cases, options.tolerance, progress.part)
    return found


def _where_it_differs(plan: _Plan, kernels: Sequence[Kernels], checked: Sequence[Checked], options: Options,
                      library: OpLibrary, scratch: Path) -> str:
    bad = next(one for one in checked if not one.passes)
    signature = next(s for s in plan.signatures if s.name == bad.case.signature)
    words = failure(bad)
    for built in kernels:
        if not built.target.on_gpu:
            node = first_difference(plan.model, plan.rewritings, built, signature, bad.case, options.tolerance, library,
                                    scratch)
            words += f". The first node that differs is {node}" if node else ""
    return words


def _plan(options: Options, config: StitchConfig, progress: Progress) -> _Plan:
    if compiler() is None:
        raise ConvertError("no C compiler (gcc, cc or clang) on this machine: install one, e.g. `apt-get install gcc`")
    model = read_model(options.source)
    signatures = model.chosen(list(options.signatures))
    targets = parse_targets(options.targets, config.cache_dir)
    check_names(signatures, options.asked)
    remarks: list[str] = []
    cases = [] if options.samples is None else samples(options.samples, signatures)
    for signature in signatures:
        if any(c.signature == signature.name for c in cases) and not options.asked.ranges and not options.asked.shapes \
                and any(v.dims is None or None in v.dims for v in signature.inputs):
            continue  # the samples' shapes
        shapes, said = shapes_of(signature, options.asked)
        remarks += said
        cases += [generated(signature, one) for one in shapes]
    progress.step("forming regions")
    device = "GPU" if any(target.on_gpu for target in targets) else "CPU"
    profile = next((t.spec.profile for t in targets if t.device_type == device), profiles(config.cache_dir)[device])
    found = bodies(model, signatures)
    rewritings = []
    for i, body in enumerate(found):
        if body.problem:
            remarks.append(f"{body.name}: {body.problem}")
        rewritings.append(rewriting_of(body, config, device, profile))
        progress.part((i + 1) / len(found))
    return _Plan(model, signatures, targets, cases, rewritings, remarks)


def _fallbacks(plan: _Plan) -> list[bytes]:
    return [own for rewriting in plan.rewritings for own in rewriting.fallbacks]


def _digests(plan: _Plan) -> list[str]:
    """Of the nodes of each region."""
    return [hashlib.sha256(own).hexdigest() for own in _fallbacks(plan)]


def _shapes_of_regions(plan: _Plan, config: StitchConfig, library: OpLibrary, scratch: Path, progress: Progress
                       ) -> dict[int, list[Shapes]]:
    """The shapes that each region runs with; where nothing ran, it is given up."""
    stored = StoredShapes(config.cache_dir, plan.model, [*(case.digest() for case in plan.cases), *_digests(plan)])
    seen = stored.recall()
    if seen is None:
        seen = _run_draft(plan, library, scratch, progress)
        stored.keep(seen)
    for number, (rewriting, place) in enumerate(plan.places):
        if number not in seen:
            rewriting.give_up(place, NEVER_RAN)
    return seen


def _run_draft(plan: _Plan, library: OpLibrary, scratch: Path, progress: Progress) -> dict[int, list[Shapes]]:
    """The shapes that each region runs with. Its own nodes run."""
    recorder = Recorder(_fallbacks(plan))
    recorder.connect(library)
    by_name = {s.name: s for s in plan.signatures}
    try:
        with loaded_draft(plan.model, rewritten(plan.model, plan.rewritings, recorder.first), scratch) as draft:
            for i, case in enumerate(plan.cases):
                run_original(draft, by_name[case.signature], case)
                progress.part((i + 1) / len(plan.cases))
    finally:
        library.clear_callbacks()
    return recorder.seen


def _build(plan: _Plan, wanted: Mapping[int, Sequence[Shapes]], config: StitchConfig, progress: Progress
           ) -> list[Kernels]:
    regions = [region for rewriting in plan.rewritings for region in rewriting.regions]
    found = []
    for target in plan.targets:
        progress.step(f"building kernels for {target.name}")
        found.append(AheadBuilder(config, target, progress.part).build(regions, wanted))
    return found


def _give_up(options: Options, config: StitchConfig, plan: _Plan, kernels: Sequence[Kernels], original: Loaded,
             library: OpLibrary, scratch: Path, progress: Progress) -> set[int]:
    """Gives up regions that are slower than their own nodes, then those of signatures that are slower still; by this
    machine's CPU, where kernels for one were built."""
    on_cpu = next((built for built in kernels if not built.target.on_gpu), None)
    if not options.measure or on_cpu is None or not on_cpu.built:
        return set()
    places = plan.places
    stored = StoredVerdicts(config.cache_dir, plan.model, [
        repr([(case.signature, sorted(case.shapes.items())) for case in plan.cases]),
        *_digests(plan), *on_cpu.sources])
    known = stored.recall()
    if known is None:
        progress.step("timing regions against the nodes that they replace")
        lost = slower_regions(plan.model, plan.rewritings, on_cpu, plan.cases, plan.signatures, library, scratch)
        for number in lost:
            places[number][0].give_up(places[number][1])
        times, ran = slower_signatures(original, plan.model, plan.rewritings, on_cpu, plan.cases, plan.signatures,
                                       library, scratch)
        slower = sorted(signature for signature, time in times.items() if time > SLOWER)
        known = Verdicts(sorted(lost.union(*(ran[signature] for signature in slower))), times)
        stored.keep(known)
    for number in known.given_up:
        places[number][0].give_up(places[number][1])
    for signature, time in known.times.items():
        said = ": its regions are given up" if time > SLOWER else ""
        plan.remarks.append(f"{signature} took {time:.2f} of the original's time a call when it was timed{said}")
    return set(known.given_up)


def _write(plan: _Plan, module: Module, kernels: Sequence[Kernels], folder: Path) -> None:
    """
    Raises:
        ConvertError: the disk is full.
    """
    try:
        _write_files(plan, module, kernels, folder)
    except OSError as error:
        raise ConvertError(f"the model cannot be written to {folder.parent.parent} ({error.strerror or error}): free "
                           "disk space, or give another --output_dir") from None


def _write_files(plan: _Plan, module: Module, kernels: Sequence[Kernels], folder: Path) -> None:
    data = module.data()
    proto = rewritten(plan.model, plan.rewritings, 0, module.digest)
    meta = proto.meta_graphs[plan.model.place]
    drop_gradients(meta, {r.body.name for r in plan.rewritings if r.taken and r.body.source is not None})
    file = _free_name(plan.model.path / "assets")
    name_variables(meta, plan.signatures)
    attach_module(meta, file, module.digest)
    copy_model(plan.model.path, proto, folder)
    (folder / "assets").mkdir(exist_ok=True)
    (folder / "assets" / file).write_bytes(data)
    _write_fingerprint(folder)
    own = own_folder(folder)
    (own / ORIGINAL).write_bytes((plan.model.path / GRAPH_FILE).read_bytes())
    (own / MANIFEST).write_text(json.dumps(_manifest(plan, module, kernels, file, data), indent=1))


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


def _manifest(plan: _Plan, module: Module, kernels: Sequence[Kernels], file: str, data: bytes) -> dict[str, Any]:
    return {"tf_stitch": __version__, "package": package_digest(), "tensorflow": tf.__version__,
            "python": platform.python_version(), "module": f"assets/{file}",
            "module_sha256": hashlib.sha256(data).hexdigest(),
            "module_sha256_of_head": module.digest, "kernels": module.hashes(),
            "targets": [{"name": k.target.name, "levels": {str(n): text for n, text in k.target.levels.items()},
                         "compiler": f"NVRTC {nvrtc_version()}" if k.target.on_gpu else compiler_version()}
                        for k in kernels],
            "signatures": [s.name for s in plan.signatures],
            "regions": ir_hashes([r for rewriting in plan.rewritings for r in rewriting.regions])}


def _outcome(options: Options, plan: _Plan, kernels: Sequence[Kernels], checked: Sequence[Checked], progress: Progress
             ) -> Converted:
    covered = coverage(plan.rewritings, kernels)
    failed = sorted({reason for built in kernels for reason in built.failed.values()})
    remarks = [*plan.remarks, *(f"no kernels for some shapes: {reason}" for reason in failed)]
    nodes = {r.body.name: {"left": {n.name: r.left_out[n.name] for n in r.body.graph_def.node if n.name in r.left_out},
                           "regions": [list(region.members) for region in r.regions]} for r in plan.rewritings}
    report = {"tf_stitch": __version__, "source": str(options.source), "target": str(options.target),
              "coverage": str(covered), "counts": covered.as_json(), "remarks": remarks, "functions": nodes,
              "seconds": {name: round(s, 3) for name, s in progress.seconds.items()},
              "certificate": document(checked, options.tolerance)}
    return Converted(covered, tuple(remarks), tuple(checked), report)

