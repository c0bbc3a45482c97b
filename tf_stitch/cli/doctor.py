"""`tf_stitch doctor`: says what works on this machine, and what to do about what does not.

  tf_stitch doctor             # looks
  tf_stitch doctor --try       # also stitches a small function, which builds what is not built yet

Exit code: 0 if programs can be stitched here, else 1.
"""

from __future__ import annotations

import importlib
import platform
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from absl import flags

from tf_stitch import child_process
from tf_stitch.cli.commands import parse, wrong
from tf_stitch.config import StitchConfig, environment_with, load_config, set_variables
from tf_stitch.errors import BuildError, ConfigError, TensorFlowError
from tf_stitch.plugin.installed_tensorflow import TESTED, find_tensorflow
from tf_stitch.private_folder import make_private
from tf_stitch.version import __version__

OK, BETTER, BROKEN = "ok", "--", "NO"
"""It works; it could be better; nothing is stitched without it."""
_TRIAL = """
import numpy as np, tensorflow as tf, tf_stitch
x = tf.constant(np.linspace(-3, 3, 12000, dtype=np.float32).reshape(12, 1000))
f = lambda x: tf.nn.softmax(tf.tanh(x) * 0.5) + 1.0
function = tf.function(f)  # whose regions are in the report as long as it is there
plain, stitched = f(x), function(x)
report = tf_stitch.last_report()
runs = sum(region["runs"] for region in report["regions"])
assert np.allclose(plain, stitched, atol=1e-6), "the results differ"
assert runs, report["fallbacks"] or report["graphs"]
"""


@dataclass(frozen=True)
class Finding:
    """What was found out about one thing.

    Attributes:
        state: OK, BETTER or BROKEN.
        text: what is there.
        advice: what to do; "" where nothing has to be done.
    """

    what: str
    state: str
    text: str
    advice: str = ""


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    values = flags.FlagValues()
    flags.DEFINE_boolean("try", False, "also stitch a small function", flag_values=values)
    rest = parse("doctor", __doc__, values, arguments)
    if rest:
        return wrong("doctor", f"{rest[0]} is no flag")
    worst = OK
    for finding in _findings(values["try"].value):
        print(f"{finding.state}  {finding.what:16} {finding.text}", flush=True)
        if finding.advice:
            print(f"    {'':16} -> {finding.advice}", flush=True)
        worst = BROKEN if finding.state == BROKEN else worst
    print("programs can be stitched here: TF_STITCH=1 python train.py, or tf_stitch run train.py" if worst == OK else
          "nothing is stitched here before what says NO is mended; TensorFlow itself runs as ever")
    return 0 if worst == OK else 1


def _findings(attempt: bool) -> Iterator[Finding]:
    """All that can be found out; later checks need what earlier ones found."""
    yield Finding("tf_stitch", OK, f"{__version__}, {Path(__file__).parents[1]}")
    yield _python()
    yield _activation()
    try:
        config = load_config()
    except ConfigError as error:
        yield Finding("variables", BROKEN, str(error), "correct or unset it: docs/environment.md")
        return
    tensorflow = _tensorflow()
    yield tensorflow
    yield _host_compiler(config)
    yield _cache(config)
    if tensorflow.state == BROKEN:
        return
    set_variables({"TF_CPP_MIN_LOG_LEVEL": "3", "TF_STITCH": "0"})
    try:
        importlib.import_module("tensorflow")
    except Exception as error:  # whatever is wrong with it
        yield Finding("TensorFlow", BROKEN, f"cannot be imported: {type(error).__name__}: {error}", "install it anew")
        return
    native = list(_native(config))
    yield from native
    yield from _gpu()
    if attempt and all(finding.state != BROKEN for finding in native):
        yield _trial()


def _python() -> Finding:
    return Finding("Python", OK, f"{platform.python_version()}, {sys.executable}")


def _activation() -> Finding:
    """Whether Python reads the .pth file that makes TF_STITCH=1 enough."""
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    if any(Path(folder, "tf_stitch.pth").exists() for folder in folders if folder):
        return Finding("TF_STITCH=1", OK, "is read when Python starts")
    return Finding("TF_STITCH=1", BETTER, "is not read when Python starts: tf_stitch.pth is not in site-packages",
                   "start programs by tf_stitch run, or import tf_stitch and call tf_stitch.enable()")


def _tensorflow() -> Finding:
    try:
        found = find_tensorflow()
    except TensorFlowError as error:
        return Finding("TensorFlow", BROKEN, str(error).partition(":")[0], str(error).partition(": ")[2])
    oldest, newest = (".".join(map(str, version)) for version in TESTED)
    release = tuple(int(part) for part in found.version.split(".")[:2] if part.isdigit())
    if release and not TESTED[0] <= release <= TESTED[1]:
        return Finding("TensorFlow", BETTER, f"{found}; tried were {oldest} to {newest}",
                       "compare the first losses with those of TF_STITCH=0")
    return Finding("TensorFlow", OK, str(found))


def _host_compiler(config: StitchConfig) -> Finding:
    from tf_stitch.runtime.host_builder import compiler, kernels_compiler

    found = compiler()
    if found is None and (recorded := kernels_compiler(config.kernels_dir)):
        return Finding("C compiler", BETTER, f"none: kernels in the cache serve (by {recorded.splitlines()[0]})",
                       "what the cache lacks, TensorFlow runs; install gcc (apt-get install gcc), or fill the cache "
                       "again where there is one: tf_stitch prebuild")
    if found is None:
        return Finding("C compiler", BROKEN, "none: kernels for the CPU cannot be built (those for GPUs can)",
                       "install gcc (apt-get install gcc); or convert a model where there is one: tf_stitch convert")
    return Finding("C compiler", OK, str(found))


def _cache(config: StitchConfig) -> Finding:
    folder = config.cache_dir.expanduser()
    problem = make_private(folder).problem
    if problem:
        return Finding("cache folder", BETTER, f"{folder}: {problem}",
                       "what it lacks is built anew by each process; set TF_STITCH_CACHE to a folder of your own")
    return Finding("cache folder", OK, f"{folder} (tf_stitch cache shows it)")


def _native(config: StitchConfig) -> Iterator[Finding]:
    from tf_stitch.native.build import GRAPH_HOOK, PREBUILT, STITCH_OP, find_compiler, find_library

    compiler = find_compiler()
    for library in (GRAPH_HOOK, STITCH_OP):
        path, failure = find_library(library, config.cache_dir)
        if path is not None:
            came = "came with the wheel" if path.parent == PREBUILT else str(path)
            yield Finding(library.name, OK, came)
        elif failure:
            yield Finding(library.name, BROKEN, "cannot be built", failure)
        elif compiler is None:
            yield Finding(library.name, BROKEN, "not built, and no C++ compiler",
                          "install g++ (apt-get install g++) or a wheel for this TensorFlow; or bring a cache folder "
                          "that tf_stitch prebuild made")
        else:
            yield Finding(library.name, OK, "not built yet; the first run does it, in a minute or two",
                          "tf_stitch prebuild does it now")


def _gpu() -> Iterator[Finding]:
    import tensorflow as tf

    devices = tf.config.list_physical_devices("GPU")
    if not devices:
        built = "this TensorFlow has no CUDA" if not tf.test.is_built_with_cuda() else "TensorFlow finds none"
        yield Finding("GPU", OK, f"{built}; CPUs are stitched")
        return
    yield Finding("GPU", OK, ", ".join(str(tf.config.experimental.get_device_details(d).get("device_name", d.name))
                                       for d in devices))
    yield _tried("NVRTC", _nvrtc, BROKEN, "pip install cupy-cuda12x")
    yield _tried("cuBLASLt, cuDNN", _libraries, BETTER, "matmuls and convolutions stay TensorFlow's, between regions")


def _nvrtc() -> str:
    from tf_stitch.runtime.nvrtc_builder import nvrtc_version

    return nvrtc_version()


def _libraries() -> str:
    from tf_stitch.runtime.device_query import cublas_lt_files, cudnn_files

    missing = [name for name, files in (("cuBLASLt", cublas_lt_files()), ("cuDNN", cudnn_files())) if not files]
    if missing:
        raise BuildError(f"no {' and no '.join(missing)} among the wheels; the system's may do")
    return "found among the wheels"


def _tried(what: str, look: Callable[[], str], state: str, advice: str) -> Finding:
    try:
        return Finding(what, OK, look())
    except BuildError as error:
        return Finding(what, state, error.message, advice)


def _trial() -> Finding:
    done = child_process.run(child_process.python_code(f"import tf_stitch\ntf_stitch.enable()\n{_TRIAL}"),
                             environment=environment_with({"TF_STITCH": "0", "TF_STITCH_ASYNC": "0",
                                                           "TF_STITCH_FIRST_STEP_SECONDS": "0"}))
    if done.returncode == 0:
        return Finding("a small function", OK, "was stitched, with TensorFlow's result")
    return Finding("a small function", BROKEN, "was not stitched", " / ".join(done.stderr.strip().splitlines()[-3:]))
