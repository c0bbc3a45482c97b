"""How an executable travels to the native op, as 64-bit words: the one table of its codes and records.

    [abi, segments of the arena, bytes of each,
     outputs, {rank, dims...} each,
     state entries, {variable, mode} each,
     updated outputs, {output, input} each,
     modules, {image pointer, image bytes} each,             # GPU; the bytes stay valid for the process's life;
                                                             #   kernels made for compute capability 9.0 or later
                                                             #   come to griddepcontrol.wait, in all their threads,
                                                             #   before they touch what a step writes
     steps, {step code, the record of that step} each,
     {steps to wait for, their numbers...} for each step]    # GPU; may be left out: each waits for the one before it

The record of a library call is its library's code, the library's own record (tf_stitch/libraries) and the operands.

`native/op/executable_format.h` is made from what is here: `python -m tf_stitch.native.executable_header`.
"""

from __future__ import annotations

from enum import IntEnum

from tf_stitch.wire_format import (
    MOST_BYTES,
    MOST_INT32,
    Flag,
    Number,
    Numbers,
    OperandField,
    OperandFields,
    Pointer,
    Record,
)

ABI_VERSION = 6


class Space(IntEnum):
    """Where a buffer lives. An operand is a buffer's number in its space, or a byte offset into the arena, counted
    through its segments: no buffer lies in two. Counters of grid barriers are memory that the executable keeps from
    run to run, zero at first; a GPU launch may use as many as it has blocks, from the one it is given on."""

    INPUT = 0
    OUTPUT = 1
    VARIABLE = 2
    FRESH = 3
    ARENA = 4
    BARRIER = 5


class StateMode(IntEnum):
    """How a variable gets its new value: written over, or a fresh buffer takes its place."""

    IN_PLACE = 0
    FRESH = 1


class StepCode(IntEnum):
    """What a step does."""

    HOST_LAUNCH = 0
    DEVICE_LAUNCH = 1
    COPY = 2
    LIBRARY_CALL = 3


HOST_LAUNCH = Record("HostLaunchWords", "Calls a CPU kernel.", (
    Pointer("kernel", "", "tfs_cpu_kernel"), OperandFields("args"),
    Numbers("sizes", "a pointer to them follows the operands, if there are any")))

DEVICE_LAUNCH = Record("DeviceLaunchWords", "Launches a GPU kernel.", (
    Number("module", "of the executable's modules", 0, MOST_INT32, "int"),
    Pointer("symbol", "stays valid for the process's life", "const char*"),
    Number("grid", "blocks", 1, MOST_INT32, "unsigned"), Number("block", "threads", 1, 1024, "unsigned"),
    Number("dynamic_shared_bytes", "", 0, 1 << 20, "unsigned"),
    Flag("cooperative", "its blocks wait for each other at a grid barrier"), OperandFields("args"),
    Numbers("sizes", "parameters after the operands")))

COPY = Record("Copy", "Copies bytes.", (
    OperandField("target"), OperandField("source"), Number("bytes", "", 0, MOST_BYTES)))

STEPS = (HOST_LAUNCH, DEVICE_LAUNCH, COPY)
"""By their codes; the records of library calls are their libraries'."""
