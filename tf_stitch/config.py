"""The only reader of TF_STITCH_* environment variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tf_stitch.errors import ConfigError, TemplateError
from tf_stitch.messages import CHANNELS
from tf_stitch.templates import Template, parse_template


@dataclass(frozen=True)
class Fuel:
    """How much may be stitched: the first `patterns` patterns, ops of all others each in a kernel of its own. With
    `regions` those of the region after these; nothing of the later ones, and of it neither if `patterns` is None."""

    regions: int | None
    patterns: int | None = None

    def __str__(self) -> str:
        if self.regions is None:
            return str(self.patterns)
        return f"{self.regions}r" if self.patterns is None else f"{self.regions}.{self.patterns}"

    @property
    def begun(self) -> int | None:
        """Regions of which anything is stitched, None for all."""
        return None if self.regions is None else self.regions + (self.patterns is not None)

    def patterns_of(self, region: int) -> int | None:
        """How many patterns of a region may be stitched, None for all."""
        return self.patterns if region == self.regions else None


@dataclass(frozen=True)
class MemoryBudget:
    """How much memory a step may take.

    Attributes:
        fraction: of the activations of a plan for the least time.
        nbytes: for a region's variables, inputs, results and all that its kernels hand to each other; None: `arena` or
            `fraction` says.
        arena: for what its kernels hand to each other, at one time; None: the others say.
    """

    fraction: float = 1.0
    nbytes: int | None = None
    arena: int | None = None


@dataclass(frozen=True)
class ForcedTemplate:
    """A template for kernels that compute a node whose name matches the glob `nodes`."""

    nodes: str
    template: Template


@dataclass(frozen=True)
class StitchConfig:
    """What the user asked for. One instance is made when TensorFlow is imported.

    Attributes:
        enabled: rewrite graphs at all (`TF_STITCH`).
        strict: raise where tf_stitch would otherwise fall back to TensorFlow (`TF_STITCH=strict`).
        wrap: how a region runs: by the native op ("auto", "native"), or in Python ("py_function").
        scope: what a region may hold; "ops" is memory-intensive ops alone.
        unroll: which loops of known length become copies of their bodies: "auto" (of graphs on GPUs), "0" or "1".
        loop_op: whether loops whose body is a region run as one op: "auto" (unless nothing builds for the host), "0" or
            "1".
        planner: "ilp" (pulp) or "greedy".
        matmuls: which matmuls are kernels of ours with what is around them: none ("library"), those "predicted" to
            be faster, or all that can ("stitched").
        reuse: how far kernels reuse values: "mapping", "hierarchy" or "merged", for experiments.
        min_region: fewest TensorFlow nodes with work in them that are worth a region; see `ClusterOptions`.
        only: globs on names of TensorFlow nodes; where there are any, regions hold nothing else.
        skip: globs on names of TensorFlow nodes that no region may hold.
        fuel: what may be stitched in this process, or None for everything.
        programmatic: kernels in CUDA graphs are started beside those that they depend on, where the device can.
        async_builds: what runs while kernels are built: nothing ("0"), a region's own TensorFlow ops ("1"), or a
            function as TensorFlow made it, which is rewritten meanwhile, too ("graph"); "auto": the last, on GPUs where
            that has room.
        first_step_seconds: how long the steps of one graph wait for kernels altogether, in seconds; 0 for as long as
            that takes.
        ilp_seconds: time limit of one integer program, in seconds.
        memory: what steps may take, by computing values again; None: as much as the fastest plan does.
        tune_seconds: what a process may spend in the background on tuning templates and measuring kernels, in seconds.
        hfuse: kernels share blocks by their threads where that was measured to be faster; such pairs are measured in
            the seconds for tuning.
        templates: templates that kernels must have, for experiments; the first that matches counts.
        report_dir: folder of `report.json`, or None.
        dump_dir: folder for every stage as text, or None.
        cache_dir: folder of built kernels and native libraries; private to the user.
        profitability_check: time each region's kernels against its fallback subgraph in early calls; the faster stays.
        short_calls: what TensorFlow does around the kernels in each call of a function is cut short.
        modules: folders whose converted models may bring their kernels into a process whose graphs are rewritten.
        verbose: status lines while the program runs, not at exit alone.
        log: channels of what goes on (tf_stitch/messages.py) that are said.
    """

    enabled: bool = False
    strict: bool = False
    wrap: str = "auto"
    scope: str = "auto"
    unroll: str = "auto"
    loop_op: str = "auto"
    planner: str = "ilp"
    matmuls: str = "library"
    reuse: str = "merged"
    min_region: int = 2
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    fuel: Fuel | None = None
    cuda_graphs: int = 64
    programmatic: bool = True
    async_builds: str = "auto"
    first_step_seconds: float = 10.0
    ilp_seconds: float = 2.0
    memory: MemoryBudget | None = None
    tune_seconds: float = 0.0
    hfuse: bool = False
    templates: tuple[ForcedTemplate, ...] = ()
    report_dir: Path | None = None
    dump_dir: Path | None = None
    cache_dir: Path = Path("~/.cache/tf_stitch")
    profitability_check: bool = True
    short_calls: bool = True
    modules: tuple[Path, ...] = ()
    verbose: bool = False
    log: frozenset[str] = frozenset()

    @property
    def kernels_dir(self) -> Path:
        """Where the cache folder has built kernels."""
        return self.cache_dir.expanduser() / "kernels"


@dataclass(frozen=True)
class Variable:
    """One environment variable: the field it sets, the values allowed, what it is for."""

    field: str
    allowed: str
    parse: Callable[[str], Any]
    doc: str


def _choice(*values: str) -> tuple[str, Callable[[str], str]]:
    def parse(text: str) -> str:
        if text not in values:
            raise ValueError(text)
        return text

    return ", ".join(values), parse


def _flag(text: str) -> bool:
    return {"0": False, "1": True}[text]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _fuel(text: str) -> Fuel:
    if text.endswith("r"):
        return Fuel(_count(text.removesuffix("r")))
    regions, point, patterns = text.rpartition(".")
    return Fuel(_count(regions) if point else None, _count(patterns))


def _globs(text: str) -> tuple[str, ...]:
    globs = tuple(glob.strip() for glob in text.split(","))
    if not all(globs):
        raise ValueError(text)
    return globs


def _channels(text: str) -> frozenset[str]:
    channels = frozenset(_globs(text))
    if not channels <= set(CHANNELS):
        raise ValueError(text)
    return channels


def _templates(text: str) -> tuple[ForcedTemplate, ...]:
    found = []
    for entry in text.split("|"):
        glob, equals, template = entry.rpartition("=")
        found.append(ForcedTemplate(glob.strip() if equals else "*", parse_template(template)))
    return tuple(found)


_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _memory(text: str) -> MemoryBudget | None:
    if text == "auto":
        return None
    unit = next((unit for unit in _UNITS if text.endswith(unit)), None)
    number = float(text.removesuffix(unit or ""))
    if (unit is None and not 0 <= number <= 1) or not 0 <= number < float("inf"):
        raise ValueError(text)
    return MemoryBudget(number) if unit is None else MemoryBudget(nbytes=round(number * _UNITS[unit]))


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < 3600:
        raise ValueError(text)
    return number


def _budget(text: str) -> float:
    return 0.0 if float(text) == 0 else _seconds(text)


def _folder(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _folders(text: str) -> tuple[Path, ...]:
    return tuple(_folder(entry) for entry in text.split(":") if entry)


_MODES = {"0": (False, False), "1": (True, False), "strict": (True, True)}

VARIABLES: Mapping[str, Variable] = {
    "TF_STITCH": Variable("enabled", "0, 1, strict", _MODES.__getitem__,
                          "1 rewrites every traced graph; strict raises instead of falling back"),
    "TF_STITCH_WRAP": Variable("wrap", *_choice("auto", "native", "py_function"),
                               "how a region runs: the C++ op (auto, too), or Python (slow; nodes on GPUs are left "
                               "to TensorFlow)"),
    "TF_STITCH_SCOPE": Variable("scope", *_choice("auto", "ops", "region"),
                                "what regions hold: memory-intensive ops alone, or also matmuls and the "
                                "variables that they read; auto: region on GPUs, ops and small matmuls on CPUs"),
    "TF_STITCH_UNROLL": Variable("unroll", *_choice("auto", "0", "1"),
                                 "whether while loops whose length is known, or the size of a tensor, become "
                                 "copies of their bodies; auto: on GPUs"),
    "TF_STITCH_LOOP_OP": Variable("loop_op", *_choice("auto", "0", "1"),
                                  "whether while loops that are loops still, and whose bodies regions can hold, run "
                                  "as one op; auto: unless a GPU's loop would need a C compiler that is not there"),
    "TF_STITCH_PLANNER": Variable("planner", *_choice("ilp", "greedy"), "how fusions are chosen"),
    "TF_STITCH_MATMULS": Variable("matmuls", *_choice("library", "predicted", "stitched"),
                                  "which matmuls become one kernel with what is around them that a library's call "
                                  "does not compute: none, those predicted to be faster (of half types on an H100 or "
                                  "H200, of float32 on a CPU), or all that can"),
    "TF_STITCH_REUSE": Variable("reuse", *_choice("mapping", "hierarchy", "merged"),
                                "how far kernels reuse values, for experiments"),
    "TF_STITCH_MIN_REGION": Variable("min_region", "a whole number from 1", _positive,
                                     "fewest working nodes that are worth a region; "
                                     "a large one by itself counts as two on CPUs"),
    "TF_STITCH_ONLY": Variable("only", "globs, separated by commas", _globs,
                               "stitch only TensorFlow nodes whose names match"),
    "TF_STITCH_SKIP": Variable("skip", "globs, separated by commas", _globs,
                               "leave TensorFlow nodes whose names match"),
    "TF_STITCH_FUEL": Variable("fuel", "a whole number from 0, 12r, or two as in 12.3", _fuel,
                               "stitch only the first patterns; with r: the first regions; with a point: the "
                               "first regions, and patterns of the next"),
    "TF_STITCH_CUDA_GRAPHS": Variable("cuda_graphs", "a whole number from 0", _count,
                                      "how many executables (a region's for some shapes) have CUDA graphs at most; of "
                                      "one region 8 have; 0: none (for profilers)"),
    "TF_STITCH_PROGRAMMATIC": Variable("programmatic", "0, 1", _flag,
                                       "1 starts kernels of CUDA graphs before those they wait for have ended"),
    "TF_STITCH_ASYNC": Variable("async_builds", *_choice("auto", "0", "1", "graph"),
                                "what runs while kernels are built: 0: nothing, steps wait; 1: TensorFlow's own ops "
                                "of each region; graph: TensorFlow's own graph of a function, until its calls have "
                                "taken as long as kernels cost; auto: graph, on GPUs where that has room"),
    "TF_STITCH_FIRST_STEP_SECONDS": Variable("first_step_seconds", "seconds, from 0 and below 3600", _budget,
                                             "how long the steps of one graph wait for kernels altogether, before "
                                             "TensorFlow's own ops run until the background has built them; 0: as "
                                             "long as it takes"),
    "TF_STITCH_ILP_SECONDS": Variable("ilp_seconds", "seconds, above 0 and below 3600", _seconds,
                                      "time limit of one integer program"),
    "TF_STITCH_MEMORY": Variable("memory", "auto, a fraction from 0 to 1, a size as in 12GiB (KiB, MiB)", _memory,
                                 "what a step may take in memory, by computing values again where they are read "
                                 "late: of the activations of auto, this fraction; or a size for variables, inputs, "
                                 "results and activations together; auto: as much as the fastest plan does"),
    "TF_STITCH_TUNE_SECONDS": Variable("tune_seconds", "seconds, from 0 and below 3600", _budget,
                                       "time to tune and measure kernels in the background, for later processes"),
    "TF_STITCH_HFUSE": Variable("hfuse", "0, 1", _flag,
                                "1 lets two kernels share blocks by their threads where an earlier process measured "
                                "that to be faster, and measures it in the time for tuning"),
    "TF_STITCH_TEMPLATE": Variable("templates", "a template, or GLOB=TEMPLATE; several with bars between", _templates,
                                   "force templates on kernels that compute nodes whose names match, for experiments"),
    "TF_STITCH_REPORT": Variable("report_dir", "a folder", _folder, "write report.json there at exit"),
    "TF_STITCH_DUMP_DIR": Variable("dump_dir", "a folder", _folder, "write every stage there as text"),
    "TF_STITCH_CACHE": Variable("cache_dir", "a folder", _folder, "built kernels and native libraries"),
    "TF_STITCH_GUARD": Variable("profitability_check", "0, 1", _flag,
                                "1 times each region against TensorFlow's ops on early calls, and keeps the faster"),
    "TF_STITCH_CALLS": Variable("short_calls", "0, 1", _flag,
                                "1 cuts short what TensorFlow does around the kernels in each call of a function, "
                                "and has Keras read losses on GPUs a step later"),
    "TF_STITCH_MODULES": Variable("modules", "folders, separated by colons", _folders,
                                  "converted models in these folders run the machine code that they bring "
                                  "([security](security.md))"),
    "TF_STITCH_VERBOSE": Variable("verbose", "0, 1", _flag, "status lines while the program runs"),
    "TF_STITCH_LOG": Variable("log", f"{', '.join(CHANNELS)}; several with commas between", _channels,
                              "says what goes on: kernels that are built, shapes that come, what is fused, each "
                              "fallback"),
}


def load_config(environ: Mapping[str, str] | None = None) -> StitchConfig:
    """Reads the environment (or `environ`) into a StitchConfig.

    Raises:
        ConfigError: an unknown TF_STITCH* variable or a value that is not allowed; the message names
            the variable and the values allowed.
    """
    environ = os.environ if environ is None else environ
    fields: dict[str, Any] = {}
    for name in sorted(environ):
        if not (name == "TF_STITCH" or name.startswith("TF_STITCH_")) or environ[name] == "":
            continue
        variable = VARIABLES.get(name)
        if variable is None:
            raise ConfigError(f"unknown variable {name}; known are {', '.join(VARIABLES)}")
        try:
            value = variable.parse(environ[name])
        except TemplateError as error:
            raise ConfigError(f"{name}: {error.message}") from None
        except (ValueError, KeyError):
            raise ConfigError(
                f"{name}={environ[name]!r} is not allowed; allowed values: {variable.allowed}") from None
        if name == "TF_STITCH":
            fields["enabled"], fields["strict"] = value
        else:
            fields[variable.field] = value
    fields.setdefault("cache_dir", _default_cache(environ))
    return StitchConfig(**fields)


def _default_cache(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "tf_stitch"


def plain_environment() -> dict[str, str]:
    """The environment for a process that runs without tf_stitch."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TF_STITCH")}


def own_variables() -> dict[str, str]:
    """The TF_STITCH_* variables of this process, TF_STITCH among them, as they are."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith("TF_STITCH")}


def environment_with(variables: Mapping[str, str]) -> dict[str, str]:
    """The environment for a process with these variables, with everything stitched and no report unless they say so."""
    ours = ("TF_STITCH_REPORT", "TF_STITCH_FUEL")
    return {name: value for name, value in os.environ.items() if name not in ours} | dict(variables)


def set_variables(variables: Mapping[str, str]) -> None:
    """Sets variables for this process, before TensorFlow is imported, and for those that it starts."""
    os.environ.update(variables)


def quiet_tensorflow() -> None:
    """Lets TensorFlow log errors alone, unless the user says otherwise: for commands that speak to people. Has to be
    called before TensorFlow is imported."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
