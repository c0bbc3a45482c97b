"""Draws networks of series: of numbers at each time, and of words one after another."""

from __future__ import annotations

from tools.blind.draft import Draft


def recurrent(draft: Draft) -> None:
    """Layers of LSTM, GRU or SimpleRNN."""
    kind = draft.pick(("LSTM", "LSTM", "GRU", "GRU", "SimpleRNN"))
    length, width = draft.size(24, 200, 4, tiny=6), draft.size(64, 512, 32, tiny=8)
    both, depth = draft.chance(0.4), draft.one_of((1, 2, 3))
    words = draft.chance(0.5)
    if words:
        count = draft.size(2000, 30000, 1, tiny=50)
        draft.input("text", (length,), count)
        draft.add(f"layers.Embedding({count}, {draft.size(64, 384, 32, tiny=8)})(text)")
    else:
        _series(draft, length)
        if draft.chance(0.5):
            draft.add(f"layers.Conv1D({draft.size(32, 256, 32, tiny=8)}, {draft.one_of((3, 5, 7))}, padding='same', "
                      "activation='relu')(x)")
    for _ in range(depth - 1):
        draft.add(f"sequence_blocks.recurrent(x, {kind!r}, {width}, {both}, True)")
    named = words and draft.chance(0.5)
    draft.add(f"sequence_blocks.recurrent(x, {kind!r}, {width}, {both}, {named})")
    if named:
        tags = draft.one_of((9, 45, 2000))
        draft.add(f"layers.Dense({tags})(x)")
        draft.classes(tags, (length,))
    else:
        _answer(draft)
    ways = "both ways" if both else "forwards"
    draft.title = f"{depth} {kind} of {width} {ways}, {length} {'words' if words else 'times'}"


def convolutional(draft: Draft) -> None:
    """Dilated, causal or separable convolutions."""
    length, filters = draft.size(128, 4096, 64, tiny=32), draft.size(32, 192, 16, tiny=8)
    norm, activation = draft.pick(("none", "batch", "layer")), draft.pick(("relu", "silu", "tanh"))
    _series(draft, length)
    if draft.chance(0.5):
        kernel, depth = draft.one_of((2, 3, 5)), 2 if draft.tiny else draft.one_of((4, 6, 8))
        for layer in range(depth):
            draft.add(f"sequence_blocks.dilated(x, {filters}, {kernel}, {2 ** layer}, {norm!r}, {activation!r})")
        kind = "dilated"
    else:
        kernel = draft.one_of((3, 9, 15))
        for layer in range(2 if draft.tiny else 4):
            draft.add(f"sequence_blocks.separable(x, {filters * 2 ** (layer // 2)}, {kernel}, {1 + layer % 2}, "
                      f"{norm!r}, {activation!r})")
        kind = "separable"
    draft.add("layers.GlobalAveragePooling1D()(x)")
    _answer(draft)
    draft.title = f"series of {length} under {kind} convolutions ({norm}, {activation})"


def speech(draft: Draft) -> None:
    """A spectrogram under convolutions, then recurrences or conformer blocks, a class for each frame."""
    frames, bands = draft.size(80, 480, 16, tiny=16), draft.one_of((40, 64, 80, 128))
    width, classes = draft.size(128, 384, 32, tiny=16), draft.one_of((29, 500, 1000))
    draft.input("sound", (frames, bands, 1))
    draft.line("x = sound")
    for _ in range(2):
        draft.add("blocks.convolution(x, 32, 3, 2, 'batch', 'relu')")
    draft.add(f"layers.Dense({width})(layers.Reshape((x.shape[1], -1))(x))")
    if draft.chance(0.5):
        kernel, heads = draft.one_of((7, 15, 31)), max(width // 64, 1)
        if width % heads:
            heads = 1
        for _ in range(draft.one_of((1, 2, 4))):
            draft.add(f"sequence_blocks.conformer(x, {heads}, {kernel}, {2 * width})")
        kind = "conformer"
    else:
        kind = draft.pick(("LSTM", "GRU"))
        for _ in range(draft.one_of((1, 2, 3))):
            draft.add(f"sequence_blocks.recurrent(x, {kind!r}, {width}, True, True)")
    draft.add(f"layers.Dense({classes})(x)")
    draft.classes(classes, (-(-frames // 4),))
    draft.title = f"speech ({kind}), {width} wide, {frames} x {bands}"


def _series(draft: Draft, length: int) -> None:
    draft.input("series", (length, draft.one_of((1, 4, 12, 48))))
    draft.line("x = series")


def _answer(draft: Draft) -> None:
    """A class, or numbers, of the whole series."""
    if draft.chance(0.5):
        classes = draft.one_of((2, 10, 100))
        draft.add(f"layers.Dense({classes})(x)")
        draft.classes(classes)
    else:
        count = draft.one_of((1, 24, 96))
        draft.add(f"layers.Dense({count})(x)")
        draft.numbers((count,), draft.pick(("mean_squared_error", "mean_absolute_error", "huber")))
