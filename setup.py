"""Adds the .pth file that activates tf_stitch to wheels and to editable installs, and names wheels that hold native
libraries (tools/wheel.py, tools/release.sh); the rest is in pyproject.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.editable_wheel import editable_wheel

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

PTH_NAME = "tf_stitch.pth"
# Looks at the variable before anything else: every Python process of the environment runs this line.
PTH_LINE = 'import os; os.environ.get("TF_STITCH", "0") not in ("", "0") and __import__("tf_stitch.plugin.autoload")\n'


class BuildWithPth(build_py):
    """Puts the .pth file beside the package, from where a wheel carries it to site-packages."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            Path(self.build_lib).mkdir(parents=True, exist_ok=True)
            self._target().write_text(PTH_LINE)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), str(self._target())]

    def _target(self) -> Path:
        return Path(self.build_lib) / PTH_NAME


class WheelWithLibraries(bdist_wheel):
    """Of a tree that holds native libraries: for this platform, any Python. If they are for one TensorFlow, its version
    is the build tag."""

    def finalize_options(self) -> None:
        self._libraries = sorted(Path("tf_stitch/native/prebuilt").glob("stitch_op-tf*.so"))
        if self._libraries:  # of machine code, as if setuptools had built it
            self.distribution.has_ext_modules = lambda: True
        super().finalize_options()
        versions = {library.name.removeprefix("stitch_op-tf").rpartition("-")[0] for library in self._libraries}
        if len(versions) == 1:
            self.build_number = f"{versions.pop()}tf"

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        return ("py3", "none", platform) if self._libraries else (python, abi, platform)


class EditableWheelWithPth(editable_wheel):
    """Adds the .pth file to the wheel of an editable install, whatever its strategy for the sources is."""

    def _select_strategy(self, *args: Any, **kwargs: Any) -> Any:
        return _WithPth(super()._select_strategy(*args, **kwargs))


class _WithPth:
    """An editable strategy of setuptools that also writes the .pth file."""

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy

    def __enter__(self) -> _WithPth:
        self._strategy.__enter__()
        return self

    def __exit__(self, *exception: Any) -> Any:
        return self._strategy.__exit__(*exception)

    def __call__(self, wheel: Any, files: Any, mapping: Any) -> None:
        self._strategy(wheel, files, mapping)
        wheel.writestr(PTH_NAME, PTH_LINE)


setup(cmdclass={"bdist_wheel": WheelWithLibraries, "build_py": BuildWithPth,
                "editable_wheel": EditableWheelWithPth})
