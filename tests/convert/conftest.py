"""Models, converted once a session, and what runs them elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.convert.models import MAKERS
from tests.support.fork_server import ForkServer
from tf_stitch.config import load_config, plain_environment
from tf_stitch.convert.command import main
from tf_stitch.native.build import STITCH_OP, build_library

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def op_library() -> Path:
    return build_library(STITCH_OP, load_config().cache_dir)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a model of MAKERS by name; nobody writes there."""
    folder = tmp_path_factory.mktemp("models")

    def make(name: str) -> Path:
        path: Path = folder / name
        return path if path.exists() else MAKERS[name](path)

    return make


@pytest.fixture(scope="session")
def converted(models: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a converted model of MAKERS by name; nobody writes there. All of its regions are kept: of such
    small ones it is chance which are faster."""
    folder = tmp_path_factory.mktemp("converted")

    def make(name: str) -> Path:
        path: Path = folder / name
        if not path.exists():
            assert main([f"--input_dir={models(name)}", f"--output_dir={path}", "--nomeasure",
                         "--input_ranges=batch=3:4"]) == 0
        return path

    return make


@pytest.fixture
def use(op_library: Path, fork_server: ForkServer, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """What use_model.py says of two models, in a process that has the op library and nothing else of ours."""

    def run(one: Path, other: Path, **inputs: Any) -> dict[str, Any]:
        np.savez(tmp_path / "inputs.npz", **inputs)
        command = [str(HERE / "use_model.py"), str(op_library), str(one), str(other), str(tmp_path / "inputs.npz")]
        status = fork_server.run(command, plain_environment(), tmp_path, timeout=280)
        stderr = (tmp_path / "stderr").read_text()
        assert status == 0, stderr[-3000:]
        said: dict[str, Any] = json.loads((tmp_path / "stdout").read_text().splitlines()[-1])
        return said | {"stderr": stderr}

    return run
