"""The module: one file, an asset of a converted model, with the kernels of all regions and targets.

    "tf_stitch module", count of words in the head (int64), the head, blobs

    head: [version, abi of executables (placement.executable_format),
           blobs, {offset from the first, bytes, SHA-256 as 4 words} each,
           libraries, {variants, {level, blob} each} each,        # level: of a CPU 0 (baseline), 1 (AVX2), 2 (AVX-512);
                                                                  #   of a GPU its compute capability, of PTX negative
           symbols, {library, bytes, the name in words} each,
           regions, {executables, {device (0 CPU, 1 GPU), compute capability, flags that a key has to have,
                                   words of its shapes, count before, words, count before} each} each]

Words of an executable from 1 << 62 on refer to kernels: kind << 56 and a number are added. Kinds: 0 the address of a
symbol, 1 that of its name, 2 that of a library's binary, 3 its bytes. The digest of a module is the SHA-256 of all that
comes before the blobs; nodes name it. native/op/aot_module.cc reads this.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tf_stitch.atomic_file import read_verified
from tf_stitch.convert.kernels import Kernels, RegionKernels
from tf_stitch.graph.clustering.region_graph import RegionGraph
from tf_stitch.ir.text_format import anonymous_text
from tf_stitch.jit.shape_family import Shapes
from tf_stitch.placement.executable import encode
from tf_stitch.placement.executable_format import ABI_VERSION

MAGIC = b"tf_stitch module"
VERSION = 1
FUNCTION, NAME, IMAGE, IMAGE_BYTES = range(4)
ALIGNED, TF32 = 1, 2
"""Flags of keys, see native/op/shape_key.h."""
ALIGNMENT = 64


def reference(kind: int, number: int) -> int:
    """A word that stands for an address."""
    return (1 << 62) + (kind << 56) + number


@dataclass
class Module:
    """A module in the making.

    Attributes:
        digest: hex SHA-256 of its head, once it is written.
    """

    regions: int
    _blobs: list[bytes] = field(default_factory=list)
    _libraries: list[list[tuple[int, int]]] = field(default_factory=list)
    _symbols: dict[tuple[int, str], int] = field(default_factory=dict)
    _executables: dict[int, list[list[int]]] = field(default_factory=dict)
    digest: str = ""

    def add(self, kernels: Kernels, given_up: Collection[int] = ()) -> None:
        """What was built for a target.

        Args:
            given_up: regions that need none of it.

        Raises:
            DamagedFileError: a file of the cache is not what was written.
        """
        wanted = {key: built for key, built in kernels.built.items() if key[0] not in given_up}
        used = {library for built in wanted.values() for library in built.library.values()}
        first = len(self._libraries)
        for number, files in enumerate(kernels.files):
            self._libraries.append([] if number not in used else
                                   [(level, self._blob(read_verified(file))) for level, file in sorted(files.items())])
        for (region, shapes), built in wanted.items():
            self._executables.setdefault(region, []).append(self._executable(kernels, shapes, built, first))

    def _blob(self, data: bytes) -> int:
        if data not in self._blobs:
            self._blobs.append(data)
        return self._blobs.index(data)

    def _executable(self, kernels: Kernels, shapes: Shapes, built: RegionKernels, first: int) -> list[int]:
        on_gpu, addresses, images = kernels.target.on_gpu, dict[str, int](), dict[tuple[int, int], list[str]]()
        used = {step.symbol for step in built.executable.steps if hasattr(step, "symbol")}
        for symbol in sorted(used):
            library = first + built.library[symbol]
            number = self._symbols.setdefault((library, symbol), len(self._symbols))
            addresses[symbol] = reference(NAME if on_gpu else FUNCTION, number)
            if on_gpu:
                images.setdefault((reference(IMAGE, library), reference(IMAGE_BYTES, library)), []).append(symbol)
        words = encode(built.executable, addresses, images)
        flat = [word for shape in shapes for word in (len(shape), *shape)]
        flags = ALIGNED | TF32 * kernels.target.spec.tf32 if on_gpu else 0
        return [int(on_gpu), kernels.target.architecture, flags, len(flat), *flat, len(words), *words]

    def data(self) -> bytes:
        """The file."""
        offsets, at = [], 0
        for blob in self._blobs:
            offsets.append(at)
            at += -(-len(blob) // ALIGNMENT) * ALIGNMENT
        head = [VERSION, ABI_VERSION, len(self._blobs)]
        for offset, blob in zip(offsets, self._blobs, strict=True):
            head += [offset, len(blob), *struct.unpack("<4q", hashlib.sha256(blob).digest())]
        head.append(len(self._libraries))
        for variants in self._libraries:
            head += [len(variants), *(word for variant in variants for word in variant)]
        head.append(len(self._symbols))
        for library, symbol in self._symbols:
            head += [library, *_text(symbol)]
        head.append(self.regions)
        for region in range(self.regions):
            executables = self._executables.get(region, [])
            head += [len(executables), *(word for one in executables for word in one)]
        front = MAGIC + struct.pack(f"<q{len(head)}q", len(head), *head)
        self.digest = hashlib.sha256(front).hexdigest()
        padded = [blob + bytes(-len(blob) % ALIGNMENT) for blob in self._blobs]
        return front + b"".join(padded)

    def hashes(self) -> list[Mapping[str, int | str]]:
        """Bytes and SHA-256 of each blob, for the manifest."""
        return [{"bytes": len(blob), "sha256": hashlib.sha256(blob).hexdigest()} for blob in self._blobs]


def _text(text: str) -> Sequence[int]:
    data = text.encode()
    padded = data + bytes(-len(data) % 8)
    return [len(data), *struct.unpack(f"<{len(padded) // 8}q", padded)]


def ir_hashes(regions: Sequence[RegionGraph]) -> list[dict[str, str]]:
    """The last node's name of each region, and the SHA-256 of its tensor IR, for the manifest."""
    return [{"region": region.members[-1],
             "ir_sha256": hashlib.sha256(anonymous_text(region.graph).encode()).hexdigest()} for region in regions]
