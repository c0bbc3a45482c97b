"""`tf_stitch bug-report`: runs a program without and with its graphs stitched, and puts what a bug report needs into
one archive.

  tf_stitch bug-report -- python train.py --steps=20
  tf_stitch bug-report --out=report.tar.gz --timeout=600 -- python -m mypackage.train

The archive holds the report of the run, the versions of packages, what `tf_stitch doctor` says, what tf_stitch said
while the program ran and, where results differ, what `tf_stitch bisect` finds: the first region that makes a
difference, with its stages. Nothing of your data is in it: no values of constants or variables, no inputs, no results,
no text of your program. Names of ops, shapes, and "file:line" of ops are. Nothing is sent; look into it before you do.

Results are compared as by `tf_stitch bisect`: the losses of lines like "step 3 loss 0.25", else the numbers of the last
line. Use few steps: where results differ the program runs some ten times.
"""

from __future__ import annotations

import importlib.metadata
import io
import os
import platform
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from absl import flags

from tf_stitch import child_process
from tf_stitch.cli.bisect import ON, BisectError, Culprit, Outcome, difference, execute, find_culprit
from tf_stitch.cli.commands import parse, wrong
from tf_stitch.config import own_variables
from tf_stitch.version import __version__

ARCHIVE = "tf_stitch_bug_report"
"""Name of the folder in the archive, and of the archive."""
_PACKAGES = re.compile(r"(?i)tensorflow|tf[_-]|keras|numpy|ml[_-]dtypes|protobuf|absl|pulp|highspy|networkx|cupy|"
                       r"nvidia")
_DOCTOR = "import sys; from tf_stitch.__main__ import main; sys.argv = ['tf_stitch', 'doctor']; main()"
_STAGES = (".graph.", ".plan.", ".schedules.")
"""In the names of dumps that are sent. Sources and kernel IR are not: constants stand in them."""
_CONSTANT = re.compile(r"(?s)(constant\(\)) \{.*?\} : ")
_FLOAT = re.compile(r"(?<![\w.])-?(\d+\.\d*(e[-+]?\d+)?|\d+e[-+]?\d+|inf|nan)(?![\w.])")


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 where the program cannot be run, or the archive not written."""
    values = flags.FlagValues()
    flags.DEFINE_string("out", f"{ARCHIVE}.tar.gz", "file for the archive", flag_values=values)
    flags.DEFINE_float("tolerance", 1e-3, "relative difference that does not count", lower_bound=0, flag_values=values)
    flags.DEFINE_float("timeout", None, "seconds after which a run counts as failed", flag_values=values)
    command = parse("bug-report", __doc__, values, arguments, stop=True)
    if not command:
        return wrong("bug-report", "a command, please, after --")
    out = Path(values.out)
    try:
        out.touch()  # rather than after minutes
        files = collect(command, values.tolerance, values.timeout)
        write_archive(files, out)
    except (BisectError, OSError) as error:
        print(f"tf_stitch bug-report: {error}", file=sys.stderr)
        return 1
    print("\n".join([f"\n{out}:", *(f"  {name}" for name in files)]))
    print("nothing was sent: look into it (tar xzf), then attach it to your report")
    return 0


def collect(command: Sequence[str], tolerance: float = 1e-3, timeout: float | None = None) -> dict[str, str]:
    """The texts of the archive by file name, from runs of the command.

    Args:
        tolerance: relative difference of results that does not count.
        timeout: seconds after which a run counts as failed.

    Raises:
        BisectError: the command cannot be run.
    """
    files = {"versions.txt": "\n".join(_versions()) + "\n", "doctor.txt": _doctor()}
    plain = execute(command, {"TF_STITCH": "0"}, timeout)
    with tempfile.TemporaryDirectory() as folder:
        stitched = execute(command, {"TF_STITCH": "1"}, timeout, Path(folder))
        report = Path(folder, "report.json")
        files |= {"report.json": report.read_text()} if report.exists() else {}
    files["messages.txt"] = "".join(f"{line}\n" for line in stitched.messages)
    summary = [f"without tf_stitch: {_ended(plain)}", f"stitched: {_ended(stitched)}",
               f"results: {compared(plain, stitched)}"]
    print("\n".join(summary))
    if plain.values and difference(plain, stitched, tolerance) is not None:
        try:
            culprit = find_culprit(plain, lambda fuel: execute(command, _fueled(fuel), timeout), tolerance)
        except BisectError as error:
            summary.append(f"bisect: {_beginning(str(error))}")
        else:
            summary += _culprit_lines(culprit)
            files |= _stages(command, culprit, timeout)
    files["summary.txt"] = "\n".join(summary) + "\n"
    return {name: without_home(text) for name, text in sorted(files.items())}


def write_archive(files: Mapping[str, str], out: Path) -> None:
    """Writes a gzip-compressed tar file with one folder.

    Raises:
        OSError: it cannot be written.
    """
    with tarfile.open(out, "w:gz") as archive:
        for name, text in files.items():
            data = text.encode()
            entry = tarfile.TarInfo(f"{ARCHIVE}/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def compared(plain: Outcome, stitched: Outcome) -> str:
    """How far results are apart, without the results."""
    if not plain.values or not stitched.values:
        return "none to compare"
    apart = [_relative(value, stitched.values[name]) for name, value in plain.values.items() if name in stitched.values]
    missing = len(plain.values) - len(apart)
    said = f"{len(apart)} compared, largest relative difference {max(apart, default=0.0):.2g}"
    return f"{said}; {missing} are missing" if missing else said


def without_values(text: str) -> str:
    """A graph's text without values of constants, and without numbers that are no integers (sizes and axes stay)."""
    return _FLOAT.sub("?", _CONSTANT.sub(r"\1 {value=?} : ", text))


def without_home(text: str) -> str:
    """Text whose paths do not name the user."""
    return text.replace(str(Path.home()), "~") if len(Path.home().parts) > 1 else text


def _versions() -> Iterator[str]:
    yield f"tf_stitch {__version__}"
    yield f"Python {platform.python_version()} ({platform.python_implementation()})"
    yield f"{platform.platform()}, {os.cpu_count()} CPU cores"
    names = {f"{package.name} {package.version}" for package in importlib.metadata.distributions()
             if package.name and package.name != "tf_stitch"}  # which says above what it is
    yield from sorted(name for name in names if _PACKAGES.match(name))
    yield from (f"{name}={value}" for name, value in own_variables().items())


def _doctor() -> str:
    """Raises BisectError where this Python cannot be started."""
    try:
        return child_process.run(child_process.python_code(_DOCTOR)).stdout
    except OSError as error:
        raise BisectError(f"{sys.executable} cannot be run: {error}") from None


def _ended(outcome: Outcome) -> str:
    """How a run ended. The rest of its failure is stderr, which may hold lines of the program."""
    return "ended" if outcome.failure is None else _beginning(outcome.failure)


def _beginning(text: str) -> str:
    return text.partition(":")[0]


def _relative(one: float, other: float) -> float:
    """nan counts as equal to nan, and as far from everything else."""
    if one == other or (one != one and other != other):
        return 0.0
    apart = abs(one - other) / max(abs(one), abs(other))
    return apart if apart == apart else float("inf")


def _fueled(fuel: str | None) -> dict[str, str]:
    return ON | ({} if fuel is None else {"TF_STITCH_FUEL": fuel})


def _culprit_lines(culprit: Culprit) -> Iterator[str]:
    yield f"region {culprit.region} is the first that makes a difference"
    if culprit.pattern is not None:
        yield f"pattern {culprit.pattern} is its first that does; it computes:"
        yield from (f"  {name} ({(culprit.nodes or {}).get(name, '?')})" for name in culprit.pattern_nodes)


def _stages(command: Sequence[str], culprit: Culprit, timeout: float | None) -> dict[str, str]:
    """The stages of the region that makes results differ."""
    with tempfile.TemporaryDirectory() as folder:
        execute(command, _fueled(f"{culprit.region + 1}r") | {"TF_STITCH_DUMP_DIR": folder}, timeout)
        found = sorted(Path(folder).glob(f"region_{culprit.region}_*"))
        return {f"stages/{file.name}": without_values(file.read_text()) if ".graph." in file.name else file.read_text()
                for file in found if any(stage in file.name for stage in _STAGES)}
