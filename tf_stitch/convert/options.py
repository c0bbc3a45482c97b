"""What a conversion is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tf_stitch.convert.sizes import Asked


@dataclass(frozen=True)
class Options:
    """
    Attributes:
        signatures: that are converted; none: all.
        targets: as --target has them.
        samples: file of real inputs.
        scope: as TF_STITCH_SCOPE.
        tolerance: by which the bounds of element types are multiplied.
        report: file for the report, or None.
        measure: regions that are slower than what they replace are given up.
    """

    source: Path
    target: Path
    signatures: tuple[str, ...]
    targets: tuple[str, ...]
    asked: Asked
    samples: Path | None = None
    scope: str = "auto"
    tolerance: float = 1.0
    report: Path | None = None
    overwrite: bool = False
    measure: bool = True
