"""Draws networks of words and of patches of images."""

from __future__ import annotations

from tools.blind.draft import Draft

HEAD = 32
"""Widths are multiples of this."""


def language_model(draft: Draft) -> None:
    """A decoder that says the next word."""
    length, words, width = draft.size(64, 640, 32, tiny=8), _words(draft), _width(draft)
    _embedding(draft, length, words, width)
    kind = _encoders(draft, width, causal=True)
    draft.add(f"layers.Dense({words})(x)")
    draft.classes(words, (length,))
    draft.title = f"language model ({kind}), {width} wide, {length} of {words} words"


def text_classifier(draft: Draft) -> None:
    """An encoder whose mean, or whose first word, says the class."""
    length, words, width = draft.size(32, 512, 16, tiny=8), _words(draft), _width(draft)
    _embedding(draft, length, words, width)
    kind = _encoders(draft, width, causal=False)
    _classes(draft, ("layers.GlobalAveragePooling1D()(x)", "layers.GlobalMaxPooling1D()(x)", "x[:, 0]"))
    draft.title = f"text classifier ({kind}), {width} wide, {length} words"


def translator(draft: Draft) -> None:
    """An encoder, and a decoder that attends to it."""
    length, words, width = draft.size(32, 256, 16, tiny=8), _words(draft), _width(draft)
    _embedding(draft, length, words, width)
    kind = _encoders(draft, width, causal=False)
    depth, hidden, heads = draft.one_of((1, 2, 4)), draft.one_of((2, 4)) * width, width // HEAD
    norm = draft.pick(("layer", "rms"))
    draft.line("memory = x")
    draft.input("answered", (length,), words)
    draft.add(f"sequence_blocks.Positions()(layers.Embedding({words}, {width})(answered))")
    for _ in range(depth):
        draft.add(f"sequence_blocks.decoder(x, memory, {heads}, {hidden}, {norm!r}, 'relu')")
    draft.add(f"layers.Dense({words})(x)")
    draft.classes(words, (length,))
    draft.title = f"encoder ({kind}) and decoder, {width} wide, {length} of {words} words"


def patches(draft: Draft) -> None:
    """An image's patches under attention, or mixed by perceptrons."""
    patch, width = draft.one_of((8, 16)), _width(draft)
    side = patch * draft.size(6, 18, 1, tiny=2)
    draft.input("image", (side, side, 3))
    draft.add(f"layers.Reshape((-1, {width}))(layers.Conv2D({width}, {patch}, {patch})(image))")
    if draft.chance(0.3):
        hidden, norm = draft.size(64, 512, 64, tiny=8), draft.pick(("layer", "batch"))
        for _ in range(draft.one_of((2, 4, 6, 8))):
            draft.add(f"sequence_blocks.mixer(x, {hidden}, {norm!r}, 'gelu')")
        kind = f"mixer, {norm}"
    else:
        draft.add("sequence_blocks.Positions()(x)")
        kind = _encoders(draft, width, causal=False)
    _classes(draft, ("layers.GlobalAveragePooling1D()(x)", "x[:, 0]"))
    draft.title = f"patches of {patch} ({kind}), {width} wide, {side} x {side}"


def _words(draft: Draft) -> int:
    return draft.size(2000, 50000, 1, tiny=50)


def _width(draft: Draft) -> int:
    return draft.size(128, 768, HEAD, tiny=32)


def _embedding(draft: Draft, length: int, words: int, width: int) -> None:
    draft.input("text", (length,), words)
    draft.add(f"sequence_blocks.Positions()(layers.Embedding({words}, {width})(text))")


def _encoders(draft: Draft, width: int, causal: bool) -> str:
    """What kind they are."""
    kind = draft.pick(("plain", "plain", "grouped", "rotary", "rotary_normed"))
    heads = width // draft.one_of((HEAD, 2 * HEAD) if width % (2 * HEAD) == 0 else (HEAD,))
    shared = {"grouped": 4, "rotary": 2, "rotary_normed": 2}.get(kind, 1)
    if heads % max(heads // shared, 1):
        kind = "plain"  # queries do not share keys evenly
    norm, before = draft.pick(("layer", "layer", "rms")), draft.chance(0.8)
    gated = draft.chance(0.4)
    activation = draft.pick(("silu", "gelu", "gelu", "relu"))
    hidden, dropout = draft.one_of((2, 3, 4)) * width, draft.dropout()
    for _ in range(draft.one_of((1, 2, 3, 4, 6, 8))):
        draft.add(f"sequence_blocks.encoder(x, {kind!r}, {heads}, {hidden}, {norm!r}, {activation!r}, gated={gated}, "
                  f"before={before}, causal={causal}, dropout={dropout})")
    if before:
        draft.add(f"blocks.normalized(x, {norm!r})")
    return f"{kind}, {norm}{'' if before else ' after'}, {'gated ' if gated else ''}{activation}"


def _classes(draft: Draft, pooled: tuple[str, ...]) -> None:
    draft.add(draft.pick(pooled))
    classes = draft.one_of((2, 10, 100, 1000))
    draft.add(f"layers.Dense({classes})(x)")
    draft.classes(classes)
