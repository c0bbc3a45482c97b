"""The session of this process, made when the first graph is to be rewritten: neither `import tensorflow` nor the first
calls of a function wait for the modules that rewrite graphs and build kernels."""

from __future__ import annotations

import os
import resource
import threading
from typing import TYPE_CHECKING

from tf_stitch.config import StitchConfig
from tf_stitch.frontend.tensorflow.own_ops import TOKEN
from tf_stitch.interruption import interruptible
from tf_stitch.messages import listen, say
from tf_stitch.native.bindings import OpLibrary
from tf_stitch.plugin.changing_calls import calls_may_change

if TYPE_CHECKING:
    from tensorflow.core.framework.graph_pb2 import GraphDef

    from tf_stitch.graph.graph_item import GraphItem
    from tf_stitch.plugin.first_calls import FirstCalls, Seconds
    from tf_stitch.plugin.session import Session
    from tf_stitch.plugin.step_turns import StepTurns

NOTHING_STITCHED = "nothing was stitched"
NOTHING_RAN = f"{NOTHING_STITCHED}: no tf.function ran, or XLA compiled all of them"


class LateSession:
    """Makes a Session when it is asked for; thread-safe.

    Args:
        config: what it does.
        native: the op library, whose callbacks it becomes; None wraps regions in py_function.
    """

    def __init__(self, config: StitchConfig, native: OpLibrary | None) -> None:
        self._config, self._native = config, native
        self._session: Session | None = None
        self._failed = False
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._first_calls: FirstCalls | None = None
        os.register_at_fork(after_in_child=self._forked)
        listen(config.log)
        if config.report_dir is not None:
            from tf_stitch.report.report import try_folder

            try_folder(config.report_dir)

    @property
    def failed(self) -> bool:
        """Whether it could not be made: TensorFlow runs the program alone."""
        return self._failed

    def get(self) -> Session | None:
        """The session, None if it cannot be made, which is said once.

        Raises:
            Exception: in strict mode, why it cannot be made.
        """
        if self._session is None and not self._failed:
            with self._lock:
                if self._session is None and not self._failed:
                    self._session = self._try_to_make()
        return self._session

    def rewrite(self, item: GraphItem) -> GraphDef | None:
        """As Session.rewrite. A function of an input pipeline, which is left alone, is no reason to make a session."""
        if item.is_tf_data and self._session is None and self._config.report_dir is None and not self._config.verbose:
            return None
        session = self.get()
        return None if session is None else session.rewrite(item)

    def hook_error(self, error: Exception) -> None:
        """As Session.hook_error. Where there is no session, that was said."""
        if self._session is not None:
            self._session.hook_error(error)

    def not_held(self, function: str, error: Exception) -> None:
        """As Session.not_held."""
        if self._session is not None:
            self._session.not_held(function, error)

    def first_calls(self) -> FirstCalls | None:
        """What first calls of functions run; None where each call is to run regions.

        Raises:
            Exception: as `get`, in strict mode, where nothing waits.
        """
        found = self._waiting_calls()
        if found is None:
            self.get()
        return found

    def load_first_calls(self) -> None:
        """Loads what first calls need, so that they need not wait for it: some 25 ms."""
        self._waiting_calls()

    def _waiting_calls(self) -> FirstCalls | None:
        config = self._config
        if self._failed or config.async_builds == "1" or not calls_may_change(config, self._native):
            return None
        with self._lock:
            if self._first_calls is None:
                self._first_calls = self._new_first_calls()
            return self._first_calls

    def turns(self) -> StepTurns | None:
        """As Session.turns; None as long as there is no session."""
        return None if self._session is None else self._session.turns

    def _new_first_calls(self) -> FirstCalls:
        from tf_stitch.plugin.background import Background
        from tf_stitch.plugin.first_calls import FirstCalls
        from tf_stitch.plugin.gpu_calls import has_room
        from tf_stitch.plugin.known_functions import KnownFunctions
        from tf_stitch.runtime.kernel_cache import KernelCache

        config = self._config
        known = KnownFunctions(config, KernelCache(config.cache_dir / "functions"))
        background = Background()

        def load() -> bool:
            with interruptible():
                return self.get() is not None and not background.stopping

        asks = config.async_builds == "auto" and config.memory is None
        return FirstCalls(background.submit, load, self._build_ahead, self._stays, known, self._spent,
                          config.first_step_seconds, has_room if asks else lambda *_: config.memory is None,
                          sessions_on_gpus=config.async_builds == "graph", at_once=config.async_builds == "0")

    def _build_ahead(self, graph: str) -> bool:
        session = self.get()
        return session is not None and session.build_ahead(graph)

    def _stays(self, graph: str, error: Exception) -> None:
        if (session := self.get()) is not None:
            session.stays(graph, error)

    def _spent(self) -> Seconds:
        from tf_stitch.plugin.first_calls import Seconds

        children = resource.getrusage(resource.RUSAGE_CHILDREN)  # the program's own count, too
        return Seconds(0.0 if self._session is None else self._session.registry.building_seconds,
                       children.ru_utime + children.ru_stime)

    def close(self) -> None:
        """Says what was done, and writes the report."""
        if self._failed:
            return
        if self._session is None and self._config.report_dir is None:
            why = str(self._first_calls or "")
            say(f"{NOTHING_STITCHED}: {why}" if why else NOTHING_RAN)
        elif (session := self.get()) is not None:
            session.close()

    def _try_to_make(self) -> Session | None:
        try:
            return self._made()
        except Exception as error:
            self._failed = True
            if self._config.strict:
                raise
            say(f"disabled, TensorFlow runs this program alone: {error}")
            return None

    def _made(self) -> Session:
        from tf_stitch.plugin.session import Session

        session = Session(self._config, self._native, self._process, self._waiting_calls())
        if self._native is not None:
            self._native.set_callbacks(session.build, session.fallbacks.subgraph, session.fallbacks.run,
                                       session.profitability, session.labels, session.lifetimes.left, TOKEN,
                                       session.fallback_bytes, session.smaller)
        return session

    def _forked(self) -> None:
        """Another thread of the parent may have held it."""
        self._lock = threading.RLock()
