"""Writes the figures of README.md and other pages that come from committed rows, between marks in these pages.

    python -m tools.speed_summary           # writes the pages
    python -m tools.speed_summary --check   # fails if a page is not what the rows give

A page names a section: `<!-- speed_summary: NAME -->` ... `<!-- end -->`. Each network counts once: by its newest run
in which what it is compared with ran beside tf_stitch.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tools.benchmark import model_summary, network_summary

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/comparison.md", "docs/distribution.md", "benchmarks/README.md", "benchmarks/networks.md",
         "benchmarks/models.md")  # fmt: skip
MARKED = re.compile(r"(<!-- speed_summary: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
SECTIONS: Mapping[str, Callable[[], Iterator[str]]] = {
    "readme": network_summary.readme,
    "summary": network_summary.summary,
    "replicas": network_summary.replicas,
    **{f"networks-{gpu}": functools.partial(network_summary.all_networks, gpu) for gpu in network_summary.GPUS},
    "models": model_summary.models,
    "models-summary": model_summary.models_summary,
    "decoding": model_summary.decoding,
    "subgraphs": model_summary.subgraphs,
    "frameworks": model_summary.frameworks,
    "on-cpus": model_summary.on_cpus,
}


def filled(page: str) -> str:
    """The page with its sections as the rows give them.

    Raises:
        KeyError: the page names a section that there is not.
    """
    return MARKED.sub(lambda found: found[1] + "\n".join(SECTIONS[found[2]]()) + "\n" + found[3], page)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = [name for name in PAGES if (text := (ROOT / name).read_text()) != filled(text)]
    for name in stale:
        if not check:
            (ROOT / name).write_text(filled((ROOT / name).read_text()))
        print(f"{name} {'is not what its rows give: run python -m tools.speed_summary' if check else 'written'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
