"""Barriers of one kernel's threads, in a block that holds another kernel's, too (HFuse, section III-A)."""

from __future__ import annotations

from tf_stitch.hfuse.facts import Facts

MOST = 15
"""Numbers of barriers; 0 is __syncthreads()'s."""


def barrier_functions(number: int, threads: int, facts: Facts) -> list[str]:
    """What stands for __syncthreads() and its kin in a part: `bar.sync number, threads`.

    Where some threads may return before others meet at a barrier, they stay in `hfuse_leave` and come to every barrier
    that the others meet at, until a round at which nobody was in the kernel any more: so exited threads count as
    arrived, as CUDA has it for a whole block.
    """
    own = f"<{number}, {threads}>"
    head = "__device__ __forceinline__"
    if not facts.barriers:
        return []
    if facts.early_return is not None:
        return [f"{head} void hfuse_barrier() {{ hfuse_bar_meet{own}(true); }}",
                f"{head} void hfuse_leave() {{ while (hfuse_bar_meet{own}(false)) {{}} }}"]
    used = {barrier.spelling for barrier in facts.barriers}
    functions = [f"{head} void hfuse_barrier() {{ hfuse_bar_sync{own}(); }}"] if "__syncthreads" in used else []
    return functions + [f"{head} int hfuse_barrier_{kind}(int p) {{ return hfuse_bar_{kind}{own}(p); }}"
                        for kind in ("count", "and", "or") if f"__syncthreads_{kind}" in used]
