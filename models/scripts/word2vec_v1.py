"""word2vec in the style of TensorFlow 1: a graph, a session, skip-gram with noise-contrastive estimation.

The words are those of the documentation strings of Python's library.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf
from docstring_text import read_text
from step_log import StepLog, parser


@dataclass(frozen=True)
class Corpus:
    """Words as numbers; number 0 stands for every rare word."""

    words: list[str]
    text: np.ndarray


def read_corpus(vocabulary: int) -> Corpus:
    """The text with its `vocabulary` most frequent words."""
    tokens = re.findall(r"[a-z]+", read_text().lower())
    words = ["<rare>", *(word for word, _ in sorted(Counter(tokens).items(), key=lambda p: (-p[1], p[0])))][:vocabulary]
    number = {word: i for i, word in enumerate(words)}
    return Corpus(words, np.array([number.get(token, 0) for token in tokens], np.int64))


def skip_grams(text: np.ndarray, batch: int, window: int, seed: int) -> Any:
    """Yields (words, [neighbour of each]) for ever."""
    random = np.random.default_rng(seed)
    while True:
        centre = random.integers(window, len(text) - window, batch)
        offset = random.integers(1, window + 1, batch) * random.choice([-1, 1], batch)
        yield text[centre], text[centre + offset][:, None]


@dataclass(frozen=True)
class Graph:
    """The nodes that the training loop runs."""

    words: Any
    neighbours: Any
    loss: Any
    train: Any
    similarity: Any


def build_graph(vocabulary: int, width: int, sampled: int, probes: np.ndarray) -> Graph:
    """Adds the model to the default graph."""
    words = tf.placeholder(tf.int64, [None], "words")
    neighbours = tf.placeholder(tf.int64, [None, 1], "neighbours")
    embeddings = tf.get_variable("embeddings", [vocabulary, width], initializer=tf.random_uniform_initializer(-1, 1))
    weights = tf.get_variable("weights", [vocabulary, width],
                              initializer=tf.truncated_normal_initializer(stddev=width**-0.5))  # fmt: skip
    biases = tf.get_variable("biases", [vocabulary], initializer=tf.zeros_initializer())
    each = tf.nn.nce_loss(weights, biases, neighbours, tf.nn.embedding_lookup(embeddings, words), sampled, vocabulary)
    loss = tf.reduce_mean(each)
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    unit = embeddings / tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keepdims=True))
    similarity = tf.matmul(tf.nn.embedding_lookup(unit, probes), unit, transpose_b=True)
    return Graph(words, neighbours, loss, train, similarity)


def arguments() -> argparse.Namespace:
    flags = parser(__doc__, batch=256)
    flags.add_argument("--vocabulary", type=int, default=4000)
    flags.add_argument("--width", type=int, default=128)
    flags.add_argument("--sampled", type=int, default=64, help="noise words per step")
    flags.add_argument("--window", type=int, default=3)
    return flags.parse_args()


def main() -> None:
    args = arguments()
    tf.disable_eager_execution()
    tf.set_random_seed(args.seed)
    corpus = read_corpus(args.vocabulary)
    probes = np.arange(1, 9)
    graph = build_graph(len(corpus.words), args.width, args.sampled, probes)
    log = StepLog()
    batches = skip_grams(corpus.text, args.batch, args.window, args.seed)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(args.steps):
            words, neighbours = next(batches)
            log.begin()
            loss, _ = session.run([graph.loss, graph.train], {graph.words: words, graph.neighbours: neighbours})
            log.end(loss)
        similarity = session.run(graph.similarity)
    nearest = np.argsort(-similarity, 1)[:, 1]
    log.note("nearest", {corpus.words[probe]: corpus.words[word] for probe, word in zip(probes, nearest, strict=True)})
    log.note("mean_similarity", float(similarity.mean()))
    log.finish(args.out)


if __name__ == "__main__":
    main()
