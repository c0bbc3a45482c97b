"""Delta debugging: cuts a program down while it fails in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from tools.fuzz.programs import Block, Program, Step

Fails = Callable[[Program], bool]
Value = Callable[[Program, str], "tuple[str, str] | None"]
"""Texts of the tensor spec and the value that a name of a program has in its first call; None if it has none."""


def reduce_program(program: Program, fails: Fails, value: Value) -> Program:
    """The smallest program found that fails.

    Args:
        fails: whether a program fails as the first one did; False from some time on ends the search.
        value: for replacing steps by what they give.
    """
    while True:
        smaller = next((p for p in _smaller(program, value) if fails(p)), None)
        if smaller is None:
            return program
        tidy = _without_the_unused(smaller)
        program = tidy if tidy != smaller and fails(tidy) else smaller


def _smaller(program: Program, value: Value) -> Iterator[Program]:
    """Candidates, those that cut most first."""
    if program.sources:
        yield replace(program, sources=())
        for name in program.sources:
            yield replace(program, sources=tuple(n for n in program.sources if n != name))
    for n in range(len(program.schedule)):
        if len(program.schedule) > 1:
            yield replace(program, schedule=program.schedule[:n] + program.schedule[n + 1:])
    for n in range(len(program.calls)):
        if len(program.calls) > 1:
            yield replace(program, calls=program.calls[:n] + program.calls[n + 1:])
    if len(program.outputs) > 1:
        for name in program.outputs:
            yield _without_the_unused(replace(program, outputs=(name,)))
        for name in program.outputs:
            yield _without_the_unused(replace(program, outputs=tuple(n for n in program.outputs if n != name)))
    for size in (8, 4, 2, 1):
        for begin in range(0, len(program.steps), size):
            yield from _without(program, program.steps[begin:begin + size], value)
    for step in program.steps:
        for smaller in _simpler(step):
            yield replace(program, steps=tuple(smaller if s is step else s for s in program.steps))
    for step in program.steps:
        if step.names and step.names[0] not in program.outputs:
            yield replace(program, outputs=(step.names[0],))


def _without(program: Program, gone: tuple[Step, ...], value: Value) -> Iterator[Program]:
    """Without the steps; what is used of them elsewhere becomes an input."""
    steps = tuple(s for s in program.steps if s not in gone)
    used = {name for step in steps for name in step.uses()}
    outputs = tuple(n for n in program.outputs if not any(n in s.names for s in gone))
    left = replace(program, steps=steps, outputs=outputs)
    for name in [n for step in gone for n in step.names if n in used]:
        texts = value(program, name)
        if texts is None:
            return
        left = replace(left, inputs={**left.inputs, name: texts[0]},
                       calls=tuple((*call, texts[1]) for call in left.calls))  # fmt: skip
    yield left


def _simpler(step: Step) -> Iterator[Step]:
    """The step with one step less in one of its blocks."""
    for i, block in enumerate(step.blocks):
        for inner in block.steps:
            rest = [s for s in block.steps if s is not inner]
            used = {n for s in rest for n in s.uses()} | set(re.findall(r"\b[a-z]\d+\b", " ".join(block.results)))
            if not used & set(inner.names):
                yield _with(step, i, replace(block, steps=tuple(rest)))
            else:
                stand_ins = sorted(inner.uses()) + list(block.params)
                for stand_in in dict.fromkeys(stand_ins):
                    yield _with(step, i, _renamed(replace(block, steps=tuple(rest)), inner.names, stand_in))
            for simpler in _simpler(inner):
                yield _with(step, i, replace(block, steps=tuple(simpler if s is inner else s for s in block.steps)))


def _with(step: Step, number: int, block: Block) -> Step:
    return replace(step, blocks=step.blocks[:number] + (block,) + step.blocks[number + 1:])


def _renamed(block: Block, names: tuple[str, ...], to: str) -> Block:
    def text(old: str) -> str:
        for name in names:
            old = re.sub(rf"\b{name}\b", to, old)
        return old

    steps = [replace(s, text=text(s.text), blocks=tuple(_renamed(b, names, to) for b in s.blocks)) for s in block.steps]
    return replace(block, steps=tuple(steps), results=tuple(map(text, block.results)))


def _without_the_unused(program: Program) -> Program:
    """Without inputs, constants and pure steps that nothing uses."""
    steps = list(program.steps)
    while True:
        used = {*program.outputs, *program.sources, *(n for s in steps for n in s.uses())}
        rest = [s for s in steps if not s.names or s.blocks or used & set(s.names)]
        if len(rest) == len(steps):
            break
        steps = rest
    inputs = {name: spec for name, spec in program.inputs.items() if name in used}
    calls = tuple(tuple(a for name, a in zip(program.inputs, call, strict=True) if name in used)
                  for call in program.calls)  # fmt: skip
    constants = {name: text for name, text in program.constants.items() if name in used}
    return replace(program, inputs=inputs, calls=calls, constants=constants, steps=tuple(steps))
