"""The native op's half of the table of executables is made from ours."""

from __future__ import annotations

from enum import IntEnum

import pytest

from tf_stitch import wire_format
from tf_stitch.libraries.registry import LIBRARIES
from tf_stitch.native import executable_header
from tf_stitch.native.executable_header import HEADER, header
from tf_stitch.placement.executable_format import STEPS, StepCode


def test_it_is_current() -> None:
    assert HEADER.read_text() == header(), "run `python -m tf_stitch.native.executable_header`"


def test_every_step_has_a_record() -> None:
    assert [code for code in StepCode if code is not StepCode.LIBRARY_CALL] == list(range(len(STEPS)))


def test_a_new_step_is_read_as_it_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    class Order(IntEnum):
        """Which way."""

        UP = 0
        FAR_DOWN = 1

    sort = wire_format.Record("SortWords", "Sorts rows.", (
        wire_format.OperandField("rows"), wire_format.Number("count", "of rows", 1, 9, "int"),
        wire_format.Choice("order", "", Order), wire_format.Flag("stable")), ordered=True)
    monkeypatch.setattr(executable_header, "STEPS", (*STEPS, sort))
    text = header()
    assert "// Which way.\nenum class Order : std::int64_t {\n  kUp = 0,\n  kFarDown = 1,\n};\n" in text
    assert """\
// Sorts rows.
struct SortWords {
  Operand rows;
  int count;  // of rows
  Order order;
  bool stable;

  auto Tie() const { return std::tie(rows, count, order, stable); }
  bool operator<(const SortWords& other) const { return Tie() < other.Tie(); }

  template <typename Reader>
  static SortWords Read(Reader& reader) {
    SortWords words{};
    words.rows = reader.NextOperand();
    words.count = static_cast<int>(reader.Ranged("SortWords.count", 1, 9));
    words.order = static_cast<Order>(reader.Ranged("SortWords.order", 0, 1));
    words.stable = reader.Ranged("SortWords.stable", 0, 1) == 1;
    return words;
  }
};
""" in text


def test_a_new_library_has_a_code_and_a_function_to_define(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scaling(type(LIBRARIES[0])):  # type: ignore[misc]
        name = "scaling"
        record = wire_format.Record("ScalingSpec", "", (wire_format.Number("count"),))

    monkeypatch.setattr(executable_header, "LIBRARIES", (*LIBRARIES, Scaling()))
    text = header()
    assert f"  kScaling = {len(LIBRARIES)},\n" in text
    assert "std::shared_ptr<const LibraryCall> MakeCall(const ScalingSpec& spec);\n" in text
    assert "    case LibraryCode::kScaling:\n      return MakeCall(ScalingSpec::Read(reader));\n" in text


def test_words_are_in_the_order_of_the_fields() -> None:
    pair = wire_format.Record("Pair", "", (wire_format.Flag("first"), wire_format.Numbers("rest")))
    outer = wire_format.Record("Outer", "", (wire_format.Number("n"), wire_format.Nested("pair", "", pair)))

    class Value:
        first, rest = True, (7, 8)

    assert outer.words(n=5, pair=Value()) == [5, 1, 2, 7, 8]
    with pytest.raises(AssertionError, match="pair"):
        outer.words(n=5)
