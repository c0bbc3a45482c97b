"""Draws backbones of keras_hub, a package of its own, under a head."""

from __future__ import annotations

from tools.blind.draft import Draft

_PLAIN = "num_heads={heads}, dropout={dropout}"
_GROUPED = "num_query_heads={heads}, num_key_value_heads={key_heads}, dropout={dropout}"
_OF_64 = _GROUPED + ", head_dim={head}"
DECODERS = {"GPT2": _PLAIN, "GPTNeoX": _PLAIN, "Bloom": _PLAIN, "OPT": _PLAIN, "Llama": _GROUPED, "Mistral": _GROUPED,
            "Phi3": _GROUPED, "Qwen3": _OF_64, "Gemma": _OF_64,
            "Falcon": "num_attention_heads={heads}, attention_dropout_rate={dropout}, "
                      "feedforward_dropout_rate={dropout}"}  # fmt: skip
ENCODERS = {"Bert": _PLAIN, "Roberta": _PLAIN, "DistilBert": _PLAIN, "DebertaV3": _PLAIN,
            "Albert": _PLAIN + ", embedding_dim={width}", "FNet": "dropout={dropout}"}
"""Backbone -> its arguments, beside those that all have."""

_WITH_SEGMENTS = ("Bert", "Albert", "FNet")
_WITHOUT_MASK = ("FNet",)


def backbone(draft: Draft) -> None:
    """A language model, or a text classifier, of texts of several lengths."""
    name = draft.pick((*DECODERS, *ENCODERS))
    length, words = draft.size(64, 384, 32, tiny=8), draft.size(2000, 50000, 1, tiny=50)
    heads, head = draft.size(3, 12, 1, tiny=2), 16 if draft.tiny else 64
    key_heads = heads // 2 if heads % 2 == 0 and draft.chance(0.7) else heads
    width, depth, dropout = head * heads, draft.one_of((2, 3, 4, 6, 8)), draft.dropout()
    own = (DECODERS | ENCODERS)[name].format(heads=heads, key_heads=key_heads, head=head, width=width, dropout=dropout)
    draft.line("import keras_hub")
    draft.line(f"backbone = keras_hub.models.{name}Backbone(vocabulary_size={words}, num_layers={depth}, "
               f"hidden_dim={width}, intermediate_dim={draft.one_of((2, 3, 4)) * width}, {own})")
    given = {"token_ids": "text"}
    draft.input("text", (length,), words)
    if name not in _WITHOUT_MASK:
        _padding(draft, length)
        given["padding_mask"] = "mask"
    if name in _WITH_SEGMENTS:
        draft.input("segments", (length,), 2)
        given["segment_ids"] = "segments"
    draft.add(f"backbone({{{', '.join(f'{key!r}: {value}' for key, value in given.items())}}})")
    if name in DECODERS:
        draft.add("backbone.token_embedding(x, reverse=True)")
        draft.classes(words, (length,))
    else:
        classes = draft.one_of((2, 10, 100))
        draft.add('x["pooled_output"]' if name in _WITH_SEGMENTS else "x[:, 0]")
        draft.add(f"layers.Dense({classes})(x)")
        draft.classes(classes)
    draft.title = f"keras_hub's {name} {depth} x {width}, {heads} heads, {length} of {words} words"


def _padding(draft: Draft, length: int) -> None:
    """A mask of the words of each text, of which at least half are there."""
    draft.input("mask", (length,), 2)
    draft.given[-1] = f'(random.integers({length // 2}, {length + 1}, (size, 1)) > range({length})).astype("int32")'
