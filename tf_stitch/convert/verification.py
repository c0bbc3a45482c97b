"""--verify_only: a converted model against the original that it carries, on the inputs of its certificate."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tf_stitch.convert.certificate import Checked, check
from tf_stitch.convert.folder import copy_model
from tf_stitch.convert.inputs import Case, generated, samples
from tf_stitch.convert.paths import CERTIFICATE, GRAPH_FILE, MANIFEST, ORIGINAL, OWN_FOLDER
from tf_stitch.convert.running import Loaded
from tf_stitch.convert.saved_model import Model, model_of, parse
from tf_stitch.errors import ConvertError
from tf_stitch.version import __version__


def verify(path: Path, samples_file: Path | None, said: Callable[[float], None] = lambda part: None
           ) -> tuple[list[Checked], list[str]]:
    """Repeats a model's certificate, with what was not repeated, and why.

    Args:
        samples_file: real inputs that the model was converted with, if there were any.

    Raises:
        ConvertError: it is no converted model, is damaged, or TensorFlow cannot load it.
    """
    manifest = _read(path, MANIFEST, ("tf_stitch", "module", "module_sha256", "signatures", "targets"))
    certificate = _read(path, CERTIFICATE, ("cases", "tolerance"))
    if manifest.get("tf_stitch") != __version__:
        raise ConvertError(f"{path} was converted by tf_stitch {manifest.get('tf_stitch')}, this is {__version__}: "
                           "convert the original anew")
    check_kernels(path, manifest)
    original = original_model(path)
    signatures = original.chosen(list(manifest["signatures"]))
    by_name = {s.name: s for s in signatures}
    given = {} if samples_file is None else {c.digest(): c for c in samples(samples_file, signatures)}
    cases: list[Case] = []
    remarks: list[str] = []
    for stored in certificate["cases"]:
        digest, name = stored["inputs_sha256"], stored["signature"]
        shapes = {n: tuple(shape) for n, shape in stored["shapes"].items()}
        case = generated(by_name[name], shapes) if stored["origin"] == "generated" else given.get(digest)
        if case is None:
            remarks.append(f"{stored['origin']} of {name} was not repeated: give the file by --samples")
        elif case.digest() != digest:
            raise ConvertError(f"inputs of {name} are not those of the certificate, which is damaged, or of another "
                               "version of NumPy")
        else:
            cases.append(case)
    with tempfile.TemporaryDirectory(prefix="tf_stitch_original_") as folder:
        copy_model(path, original.proto, Path(folder), link=True)
        on_gpu = any(target["name"] != "cpu" for target in manifest["targets"])
        with Loaded(Path(folder), original.tags, on_gpu) as one, Loaded(path, original.tags, on_gpu) as other:
            return check(one, other, signatures, cases, float(certificate["tolerance"]), said), remarks


def check_kernels(path: Path, manifest: Mapping[str, Any]) -> None:
    """
    Raises:
        ConvertError: the module is not the one that the manifest tells of.
    """
    file = path / manifest["module"]
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConvertError(f"{file} cannot be read ({error.strerror}): convert the original anew") from None
    if hashlib.sha256(data).hexdigest() != manifest["module_sha256"]:
        raise ConvertError(f"{file} is not what was written: its SHA-256 is not the manifest's; convert the original "
                           "anew")


def original_model(path: Path) -> Model:
    """The original of a converted model; its files are the converted one's but for the graph.

    Raises:
        ConvertError: the original graph is damaged.
    """
    return model_of(path, parse(path / OWN_FOLDER / ORIGINAL))


def _read(path: Path, name: str, keys: Sequence[str]) -> dict[str, Any]:
    if not (path / GRAPH_FILE).exists():
        raise ConvertError(f"{path} is no SavedModel: --verify_only names the directory of a converted one")
    try:
        found: dict[str, Any] = json.loads((path / OWN_FOLDER / name).read_text())
        missing = [key for key in keys if not isinstance(found, dict) or key not in found]
        if missing:
            raise ValueError(f"it has no {', '.join(missing)}")
    except FileNotFoundError:
        raise ConvertError(f"{path} is not a converted model: it has no {OWN_FOLDER / name}") from None
    except (OSError, ValueError) as error:
        raise ConvertError(f"{path / OWN_FOLDER / name} is damaged ({error}): convert the original anew") from None
    return found
