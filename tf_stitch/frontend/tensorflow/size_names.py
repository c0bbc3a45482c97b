"""Names of sizes that are computed from others.

- "a|b": what a and b broadcast to (a where b is 1, b where a is 1);
- "a*b": the number of elements of axes that became one; factors may be multiplied, but not taken apart;
- "a-k": a less a number, at least 0, of a slice; "a^k": that and the number again, of a padding (a, or k where that is
  more).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce

from tf_stitch.frontend.tensorflow.node_context import is_fresh
from tf_stitch.ir.types import Dim, Symbol

_OR, _TIMES = "|", "*"


def is_computed(size: Symbol) -> bool:
    return re.search(r"[|*^-]", size.name) is not None


def parts(size: Dim) -> frozenset[Symbol]:
    """The sizes that one is computed from: itself, if it is not."""
    if not isinstance(size, Symbol):
        return frozenset()
    names = [factor.name for factor in factors(size) if isinstance(factor, Symbol)]
    return frozenset(Symbol(part) for name in names for part in name.split(_OR))


def factors(size: Symbol) -> list[Dim]:
    """What a product is the product of: itself, if it is none."""
    return [int(word) if word.isdigit() else Symbol(word) for word in size.name.split(_TIMES)]


def broadcasts(size: Dim) -> list[Symbol]:
    """Factors that sizes were broadcast to."""
    return [f for f in factors(size) if isinstance(f, Symbol) and _OR in f.name] if isinstance(size, Symbol) else []


def broadcast(sizes: Iterable[Dim]) -> Dim | None:
    """What sizes broadcast to; None if they cannot, or if there is no name for that."""
    others = {d for d in sizes if d != 1}
    numbers = {d for d in others if isinstance(d, int)}
    if numbers:
        return numbers.pop() if len(numbers) == 1 else None
    if len(others) < 2:
        return others.pop() if others else 1
    products = [_product([d]) for d in others]
    common = reduce(Counter.__and__, (symbols for _, symbols in products))
    unlike = [list((symbols - common).elements()) for _, symbols in products]
    number, *different = {number for number, _ in products}
    if different or any(len(names) != 1 for names in unlike):
        return None
    return _symbol(number, [*common.elements(), _OR.join(sorted({n for [name] in unlike for n in name.split(_OR)}))])


def quotient(have: Sequence[Dim], known: Sequence[Dim]) -> Dim | None:
    """The axis that a reshape adds to `known` for as many elements as `have`; None if there is no name for that."""
    number, symbols = _product(have)
    divisor, its_symbols = _product(known)
    symbols.subtract(its_symbols)
    if divisor == 0 or number % divisor or any(count < 0 for count in symbols.values()):
        return None
    return _symbol(number // divisor, symbols.elements())


def less(size: Dim, number: int) -> Symbol | None:
    """max(size - number, 0)."""
    plain = isinstance(size, Symbol) and not is_fresh(size) and not is_computed(size)
    return Symbol(f"{size}-{number}") if plain else None


def more(size: Dim, number: int) -> Symbol | None:
    """size + number, where that is known to have been taken off."""
    base, _, taken = str(size).partition("-")
    return Symbol(f"{base}^{number}") if isinstance(size, Symbol) and taken == str(number) else None


def mostly(size: Symbol) -> Symbol:
    """The size that this one is unless it is small; itself in most cases."""
    return Symbol(size.name.partition("^")[0])


def _symbol(number: int, names: Iterable[str]) -> Dim:
    names = sorted(names)
    return Symbol(_TIMES.join([str(number)] * (number != 1) + names)) if names else number


def _product(sizes: Iterable[Dim]) -> tuple[int, Counter[str]]:
    """Their number, and the names of the others."""
    each = [f for d in sizes for f in ([d] if isinstance(d, int) else factors(d))]
    return math.prod(f for f in each if isinstance(f, int)), Counter(f.name for f in each if isinstance(f, Symbol))
