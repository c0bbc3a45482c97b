"""The native libraries load beside every wheel of TensorFlow: each symbol that they leave undefined is exported there.

`python -m tools.exported_symbols` lists what the wheels export. The libraries at hand are built against one TensorFlow;
headers of others may ask for other symbols, which tools/versions.sh tries.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import tensorflow as tf

from tf_stitch.config import load_config
from tf_stitch.native.build import GRAPH_HOOK, STITCH_OP, Library, build_library
from tools.exported_symbols import WHEELS, missing_symbols, read_exports, undefined_symbols, write_exports

WITH_HEADERS_OF = {
    "2.17": {
        "_ZN3tsl8profiler15AnnotationStack11generation_E",
        "_ZN3tsl8profiler15AnnotationStack13PopAnnotationEv",
        "_ZN3tsl8profiler21DefaultProfilerDomainEv",
        "_ZN3tsl8profiler8RangePopEPNS0_14ProfilerDomainE",
        "_ZN3tsl8profiler9RangePushEPNS0_14ProfilerDomainEPKc",
    },
    "2.19": {
        "_ZN3tsl8profiler8internal21g_trace_filter_bitmapE",
    },
    "2.20": {
        "_ZN10tensorflow11ConfigProtoC1EPN6google8protobuf5ArenaE",
        "_ZN10tensorflow11FunctionDefC1EPN6google8protobuf5ArenaE",
        "_ZN10tensorflow18FunctionDefLibraryC1EPN6google8protobuf5ArenaE",
        "_ZN10tensorflow5OpDefC1EPN6google8protobuf5ArenaE",
        "_ZN10tensorflow9AttrValueC1EPN6google8protobuf5ArenaE",
        "_ZN4absl12lts_2025081412log_internal15LogMessageFatalC1EPKciS4_",
        "_ZN6google8protobuf11MessageLite15ParseFromStringESt17basic_string_viewIcSt11char_traitsIcEE",
        "_ZN6google8protobuf5Arena16AllocateForArrayEm",
        "_ZN6google8protobuf5Arena8AllocateEm",
        "_ZN6google8protobuf8internal20RepeatedPtrFieldBase14AddMessageLiteEPFPvPNS0_5ArenaEE",
        "_ZNK4absl12lts_2025081415status_internal9StatusRep5UnrefEv",
    },
    "2.21": {
        "_ZN4absl12lts_2025081413hash_internal43CombineLargeContiguousImplOn64BitLengthGt32EPKhmm",
        "_ZN4absl12lts_2025081418container_internal20IterateOverFullSlotsERKNS1_12CommonFieldsEmNS0_11FunctionRefIFvPKNS1_"
        "6ctrl_tEPvEEE",
        "_ZN4absl12lts_202508145Mutex11lock_sharedEv",
        "_ZN4absl12lts_202508145Mutex13unlock_sharedEv",
        "_ZN4absl12lts_202508145Mutex4lockEv",
        "_ZN4absl12lts_202508145Mutex6unlockEv",
        "_ZN6google8protobuf8internal14UntypedMapBase14ClearTableImplEb",
    },
}
"""By minor version, what headers of TensorFlow ask for from there on: those before had other inline functions. A name
comes here when tools/versions.sh has loaded the library beside the versions before."""
ADVICE = "use an inline header or the C API instead"
FAULT = "_ZN4absl12lts_2023080212log_internal10LogMessagelsImLi0EEERS2_RKT_"
"""Where a shape function took a handle's shape by shape_inference.h, TensorFlow 2.18.1 could not load the library."""

exports = cache(read_exports)


def undefined(library: Library) -> frozenset[str]:
    return undefined_symbols(build_library(library, load_config().cache_dir))


def minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def test_every_wheel_is_listed() -> None:
    assert tuple(exports()) == WHEELS
    assert all(len(names) > 30_000 for names in exports().values())


@pytest.mark.parametrize("library", [STITCH_OP, GRAPH_HOOK], ids=lambda library: library.name)
def test_the_wheels_of_this_version_export_all(library: Library) -> None:
    wheels = [wheel for wheel in WHEELS if minor(wheel.partition("==")[2]) == minor(tf.version.VERSION)]
    assert wheels, f"run `python -m tools.exported_symbols tensorflow=={tf.version.VERSION}` and add it to WHEELS"
    for wheel in wheels:
        assert missing_symbols(undefined(library), exports()[wheel]) == [], f"{wheel} does not export these: {ADVICE}"


@pytest.mark.skipif(minor(tf.version.VERSION) != minor(WHEELS[-1].partition("==")[2]),
                    reason="which headers ask for what is listed for the newest TensorFlow")
@pytest.mark.parametrize("wheel", WHEELS)
def test_the_wheels_of_other_versions_export_all(wheel: str) -> None:
    newer = {name for version, names in WITH_HEADERS_OF.items()
             if minor(version) > minor(wheel.partition("==")[2]) for name in names}
    assert missing_symbols(undefined(STITCH_OP) - newer, exports()[wheel], any_absl=True) == [], \
        f"{wheel} does not export these: {ADVICE}, or list those that only newer headers ask for above"
    assert newer <= undefined(STITCH_OP), "no longer asked for"


@pytest.mark.parametrize("wheel", [wheel for wheel in WHEELS if wheel.partition("==")[2] >= "2.18"])
def test_a_template_of_absl_that_wheels_spell_in_two_ways_is_missing(wheel: str) -> None:
    assert missing_symbols([FAULT], exports()[wheel], any_absl=True) == [FAULT]
    assert missing_symbols([FAULT], exports()["tensorflow==2.17.1"]) == []


def test_what_is_written_is_read(tmp_path: Path) -> None:
    exported = {"one==1": frozenset({"TF_Version", "_ZN4absl1aEv"}), "two==2": frozenset({"TF_Version"})}
    write_exports(exported, tmp_path / "file.xz")
    assert read_exports(tmp_path / "file.xz") == exported
