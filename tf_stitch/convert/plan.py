"""What a conversion is about: the model, the inputs that it is run with, and the regions of its functions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tf_stitch.config import StitchConfig
from tf_stitch.convert.entries import bodies
from tf_stitch.convert.functions import Body
from tf_stitch.convert.inputs import Case, generated, samples
from tf_stitch.convert.options import Options
from tf_stitch.convert.progress import Progress
from tf_stitch.convert.rewriting import Rewriting, rewriting_of
from tf_stitch.convert.saved_model import Model, Signature, read_model
from tf_stitch.convert.sizes import check_names, shapes_of
from tf_stitch.convert.structure import structure_of
from tf_stitch.convert.targets import BuildTarget, parse_targets
from tf_stitch.device.profile import DeviceProfile
from tf_stitch.errors import ConvertError
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.runtime.device_profiles import profiles
from tf_stitch.runtime.host_builder import compiler


@dataclass
class Task:
    """What is known before regions are formed.

    Attributes:
        bodies: what is rewritten.
        cases: inputs, at least one of each signature.
        device: "CPU" or "GPU", for which regions are formed; profile: of it.
    """

    model: Model
    signatures: list[Signature]
    targets: list[BuildTarget]
    bodies: list[Body]
    cases: list[Case]
    device: str
    profile: DeviceProfile
    remarks: list[str]


@dataclass
class Plan:
    """Regions, before anything is built.

    Attributes:
        scope: as TF_STITCH_SCOPE.
    """

    task: Task
    scope: str
    rewritings: list[Rewriting]

    @property
    def places(self) -> list[tuple[Rewriting, int]]:
        """The function of each region, and its place there; regions are numbered by theirs here."""
        return [(r, i) for r in self.rewritings for i in range(len(r.regions))]

    @property
    def fallbacks(self) -> list[bytes]:
        """Each region's fallback subgraph, a serialized FunctionDef."""
        return [own for rewriting in self.rewritings for own in rewriting.fallbacks]

    def structure(self) -> str:
        """A digest of what is timed of the model: equal for those that differ in weights and names."""
        task = self.task
        texts = [anonymous_text(region.graph) for rewriting in self.rewritings for region in rewriting.regions]
        signatures = [(s.name, s.inputs, s.outputs) for s in task.signatures]
        known = structure_of(body.graph_def for body in task.bodies)
        return hashlib.sha256(repr((known, texts, signatures)).encode()).hexdigest()

    def digests(self) -> list[str]:
        """Digests of the nodes of each region."""
        return [hashlib.sha256(own).hexdigest() for own in self.fallbacks]


def read_task(options: Options, config: StitchConfig) -> Task:
    """
    Raises:
        ConvertError: the model, or what it is to be run with, makes no sense.
    """
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
                and not options.asked.buckets and any(v.dims is None or None in v.dims for v in signature.inputs):
            continue  # the samples' shapes
        shapes, said = shapes_of(signature, options.asked)
        remarks += said
        cases += [generated(signature, one) for one in shapes]
    device = "GPU" if any(target.on_gpu for target in targets) else "CPU"
    profile = next((t.spec.profile for t in targets if t.device_type == device), profiles(config.cache_dir)[device])
    found = bodies(model, signatures)
    remarks += [f"{body.name}: {body.problem}" for body in found if body.problem]
    return Task(model, signatures, targets, found, cases, device, profile, remarks)


def form_regions(task: Task, config: StitchConfig, progress: Progress) -> Plan:
    """
    Args:
        config: whose scope says what regions hold.
    """
    progress.step("forming regions")
    rewritings = []
    for i, body in enumerate(task.bodies):
        rewritings.append(rewriting_of(body, config, task.device, task.profile))
        progress.part((i + 1) / len(task.bodies))
    return Plan(task, config.scope, rewritings)
