"""Errors of tf_stitch: each names the user's node (when there is one) and says what was done instead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLoc:
    """Where a value came from: a node of the user's graph."""

    node: str
    op: str

    def __str__(self) -> str:
        return f"{self.node} ({self.op})"


UNKNOWN_LOC = SourceLoc("", "")


class StitchError(Exception):
    """Base of every error that tf_stitch raises on purpose.

    Args:
        message: what is wrong, in a sentence.
        loc: the user's node the message is about, if any.
    """

    def __init__(self, message: str, loc: SourceLoc | None = None) -> None:
        super().__init__(f"{loc}: {message}" if loc and loc.node else message)
        self.message = message
        self.loc = loc


class ConfigError(StitchError):
    """A TF_STITCH_* variable has a value that is not allowed."""


class ProfileError(StitchError):
    """A file is no device profile; the message names the file and the field."""


class DamagedFileError(StitchError):
    """A file of the cache folder is not what was written; the message names it."""


class UnsupportedError(StitchError):
    """A node cannot be expressed in the tensor IR; it stays a TensorFlow op."""


class GraphLeftAloneError(StitchError):
    """A graph that is to run as TensorFlow made it; the message says why."""


class TypeRuleError(StitchError):
    """Operand types that an op's type rule does not accept."""


class VerifyError(StitchError):
    """An IR invariant does not hold: a bug in a pass, never the user's fault."""


class ScheduleError(StitchError):
    """A set of nodes cannot become one kernel; the message says why."""


class TooManyCopiesError(ScheduleError):
    """A kernel would compute values at too many places, by whichever schedule."""


class TemplateError(StitchError):
    """A text is no implementation template; the message says where it stops being one."""


class BindError(StitchError):
    """Run-time shapes contradict what the rewrite assumed of a region."""


_NO_ELEMENTS = "a tensor has no elements"


class EmptyTensorError(BindError):
    """A region has a tensor without elements: nothing is gained by a kernel, and nothing is wrong."""

    def __init__(self, loc: SourceLoc | None) -> None:
        super().__init__(_NO_ELEMENTS, loc)


def is_of_empty_tensor(reason: str) -> bool:
    """Whether a text is, or ends with, the message of an EmptyTensorError."""
    return reason.endswith(_NO_ELEMENTS)


class SourceError(StitchError):
    """A CUDA source cannot be fused.

    Args:
        file: the user's.
        line: from 1 on; 0 if it is about the file.
        reason: in a sentence.
    """

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(f"{file}:{line}: {reason}" if line else f"{file}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason


class BuildError(StitchError):
    """A compiler is missing or rejected generated code."""


class BuildInterruptedError(BuildError):
    """A build did not end for a reason that may pass: no memory, a full disk, a compiler that was killed."""


class TensorFlowError(StitchError):
    """There is no TensorFlow, or one that is too old; the message says what to install."""


class NativeError(StitchError):
    """The native op or the graph hook could not be built or loaded."""


class ConvertError(StitchError):
    """A SavedModel that cannot be converted, or a conversion that is not to be trusted; the message says what to do."""


class ConvertFlagError(ConvertError):
    """A flag of the converter makes no sense, by itself or for the model."""


class BuildPending(Exception):
    """A build goes on in the background: ask again later."""
