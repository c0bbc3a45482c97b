"""Times of steps on disk: a later process continues where an earlier one ended, until there are enough."""

from __future__ import annotations

import errno
import json
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from tf_stitch.atomic_file import read_verified, write_verified
from tf_stitch.errors import DamagedFileError
from tf_stitch.private_folder import Access, make_private
from tf_stitch.report.step_times import StepTimes


class StepStore:
    """One JSON file for each function, named by its key, verified when it is read.

    Attributes:
        folder: need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def recall(self, key: str) -> StepTimes:
        """All times measured so far; none if there is no file.

        Raises:
            OSError, DamagedFileError: the file cannot be read, or is not what was written.
        """
        path = self._path(key)
        if not self._access.reading:
            return StepTimes()
        try:
            document = json.loads(read_verified(path))
            return StepTimes(*(tuple(map(float, document[name])) for name in ("before_us", "now_us")))
        except FileNotFoundError:
            return StepTimes()
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedFileError(f"{path} holds no times of a step: {error}") from error

    def keep(self, key: str, times: StepTimes) -> None:
        """Stores times for later processes.

        Raises:
            OSError: the disk is full, or the folder cannot be written, or others can.
        """
        if self._access.problem:
            raise PermissionError(errno.EPERM, self._access.problem, str(self.folder))
        write_verified(self._path(key), json.dumps(asdict(times)).encode())

    @cached_property
    def _access(self) -> Access:
        return make_private(self.folder)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"
