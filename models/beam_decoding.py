"""GPT-2 of models/decoding.py by beam search: of each text the likeliest beams go on, and take their rows of the cache
along."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from models.decoding import CONFIGS as GREEDY
from models.decoding import LanguageModel, data
from models.program import Model, Tensors
from models.script import main

BEAMS = 4
CONFIGS = {
    "paper": GREEDY["paper"],
    "paper_16": replace(GREEDY["paper"], batch=16),
    "medium": GREEDY["medium"],
    "small": replace(GREEDY["small"], batch=1),
    "small_16": replace(GREEDY["small"], batch=16, length=20),
}


class BeamSearch(LanguageModel):
    def infer(self, batch: Tensors) -> dict[str, Any]:
        """The likeliest text of each, and the logarithm of how likely its beams are [batch, beams]."""
        text = ops.repeat(batch["text"], BEAMS, axis=0)
        there = ops.repeat(batch["there"], BEAMS, axis=0)
        count, words = batch["text"].shape[0], self._config.vocabulary
        at = ops.min(ops.sum(ops.cast(there, "int32"), axis=-1))
        _, cache = self.logits(text, self.cache(text.shape[0]), 0)
        # Beams are the same at first: one of them counts.
        scores = ops.tile(ops.convert_to_tensor([[0.0] + [-1e9] * (BEAMS - 1)]), (count, 1))

        def body(text: Any, cache: Any, scores: Any, at: Any) -> tuple[Any, Any, Any, Any]:
            last = ops.slice(text, [0, at - 1], [text.shape[0], 1])
            logits, cache = self.logits(last, cache, at - 1)
            likely = ops.reshape(tf.nn.log_softmax(tf.cast(logits[:, 0], tf.float32)), (count, BEAMS, words))
            scores, best = ops.top_k(ops.reshape(scores[:, :, None] + likely, (count, BEAMS * words)), BEAMS)
            rows = ops.reshape(best // words + BEAMS * ops.arange(count)[:, None], (-1,))
            text, cache = ops.take(text, rows, axis=0), ops.take(cache, rows, axis=0)
            word = ops.where(there[:, at], text[:, at], ops.reshape(best % words, (-1,)))
            return ops.slice_update(text, [0, at], word[:, None]), cache, scores, at + 1

        text, _, scores, _ = ops.while_loop(lambda text, cache, scores, at: at < self._config.length, body,
                                            (text, cache, scores, at))
        return {"likeliest": ops.reshape(text, (count, BEAMS, -1))[:, 0], "scores": scores}


MODEL = Model("beam-decoding", CONFIGS, data, BeamSearch, lambda _: keras.optimizers.Adam(), ("infer",))

if __name__ == "__main__":
    main(MODEL)
