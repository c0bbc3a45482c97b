"""Draws networks of tables: numbers and categories of each row, users and items, images beside tables."""

from __future__ import annotations

from tools.blind.draft import Draft


def table(draft: Draft) -> None:
    """Numbers and categories under perceptrons, gated ones or crosses of features."""
    columns, categories = draft.size(8, 256, 1, tiny=8), draft.one_of((0, 1, 4, 12))
    _columns(draft, columns, categories)
    kind = draft.pick(("perceptrons", "residual perceptrons", "gated", "crossed"))
    width, norm = draft.size(64, 1024, 32, tiny=8), draft.pick(("none", "batch", "layer"))
    activation, dropout = draft.pick(("relu", "silu", "selu", "tanh")), draft.dropout()
    if kind == "crossed":
        draft.line("features = x")
        for _ in range(draft.one_of((1, 2, 3))):
            draft.add("blocks.crossed(x, features)")
    for _ in range(draft.one_of((2, 3, 4, 6))):
        if kind == "gated":
            draft.add(f"blocks.normalized(blocks.gated(x, {width}), {norm!r})")
        else:
            draft.add(f"blocks.perceptron(x, {width}, {norm!r}, {activation!r}, {dropout}, "
                      f"{kind == 'residual perceptrons'})")
    _answer(draft)
    draft.title = f"table of {columns} numbers and {categories} categories ({kind} of {width}, {norm})"


def towers(draft: Draft) -> None:
    """Users and items, each with a history, and the product of what they are."""
    users, items = draft.size(10000, 200000, 1, tiny=50), draft.size(5000, 100000, 1, tiny=50)
    width, history = draft.size(32, 128, 16, tiny=8), draft.size(8, 64, 4, tiny=4)
    draft.input("user", (), users)
    draft.input("past", (history,), items)
    draft.input("item", (), items)
    draft.line(f"embedding = layers.Embedding({items}, {width})")
    draft.line("taste = layers.GlobalAveragePooling1D()(embedding(past))")
    draft.line(f"x = layers.Concatenate()([layers.Embedding({users}, {width})(user), taste])")
    hidden = draft.size(64, 512, 64, tiny=8)
    draft.add(f"layers.Dense({width})(layers.Dense({hidden}, activation='relu')(x))")
    draft.line(f"y = layers.Dense({width})(layers.Dense({hidden}, activation='relu')(embedding(item)))")
    draft.add("layers.Dense(2)(layers.Concatenate()([x, y, x * y]))")
    draft.classes(2)
    draft.title = f"towers of {users} users and {items} items, {width} wide"


def beside_images(draft: Draft) -> None:
    """An image and a table's row, together."""
    side, channels = draft.size(32, 128, 32, tiny=32), draft.size(16, 48, 16, tiny=8)
    _columns(draft, draft.size(8, 64, 1, tiny=8), 1)
    draft.line("row = x")
    draft.input("image", (side, side, 3))
    draft.line("x = image")
    for stage in range(2 if draft.tiny else 4):
        draft.add(f"blocks.convolution(x, {channels * 2 ** stage}, 3, 2, 'batch', 'relu')")
    draft.add("layers.Concatenate()([layers.GlobalMaxPooling2D()(x), row])")
    draft.add(f"layers.Dense({draft.size(64, 512, 64, tiny=8)}, activation='gelu')(x)")
    _answer(draft)
    draft.title = f"images {side} x {side} beside a table"


def _columns(draft: Draft, numbers: int, categories: int) -> None:
    """Inputs of a table; `x` holds their features."""
    draft.input("numbers", (numbers,))
    draft.line("x = numbers")
    if categories:
        count, width = draft.size(100, 20000, 1, tiny=10), draft.size(8, 32, 4, tiny=4)
        draft.input("categories", (categories,), count)
        draft.add(f"layers.Concatenate()([x, layers.Flatten()(layers.Embedding({count}, {width})(categories))])")


def _answer(draft: Draft) -> None:
    if draft.chance(0.6):
        classes = draft.one_of((2, 7, 50))
        draft.add(f"layers.Dense({classes})(x)")
        draft.classes(classes)
    else:
        draft.add("layers.Dense(1)(x)")
        draft.numbers((1,), draft.pick(("mean_squared_error", "mean_absolute_error", "huber")))
