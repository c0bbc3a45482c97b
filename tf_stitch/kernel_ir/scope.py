"""What is declared where a statement stands, and the one way to say that a program is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tf_stitch.errors import VerifyError
from tf_stitch.kernel_ir.index import Var
from tf_stitch.kernel_ir.program import BLOCK


@dataclass
class Scope:
    """Declared names.

    Attributes:
        indices: index variables with their extents.
        scalars: True for those that may change.
        arrays: with their sizes in elements.
        uniform: variables that are the same for all threads of a block.
    """

    indices: dict[str, int]
    scalars: dict[str, bool] = field(default_factory=dict)
    arrays: dict[str, int] = field(default_factory=dict)
    uniform: frozenset[str] = frozenset({BLOCK})

    def inner(self, variables: Iterable[Var] = ()) -> Scope:
        """The scope of a body that declares these variables."""
        indices = self.indices | {variable.name: variable.extent for variable in variables}
        return Scope(indices, dict(self.scalars), dict(self.arrays), self.uniform)


def require(condition: bool, message: str) -> None:
    """
    Raises:
        VerifyError: the condition does not hold.
    """
    if not condition:
        raise VerifyError(message)
