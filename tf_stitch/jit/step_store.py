"""Times of steps on disk: a later process continues where an earlier one ended, until there are enough."""

from __future__ import annotations

from dataclasses import asdict

from tf_stitch.errors import DamagedFileError
from tf_stitch.json_folder import JsonFolder
from tf_stitch.report.step_times import StepTimes


class StepStore(JsonFolder):
    """Times of calls, by the key of their function."""

    def recall(self, key: str) -> StepTimes:
        """All times measured so far; none if there is no file.

        Raises:
            OSError, DamagedFileError: the file cannot be read, or is not what was written.
        """
        document = self.read(key)
        if document is None:
            return StepTimes()
        try:
            return StepTimes(*(tuple(map(float, document[name])) for name in ("before_us", "now_us")))
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedFileError(f"{self.path(key)} holds no times of a step: {error}") from error

    def keep(self, key: str, times: StepTimes) -> None:
        """Stores times for later processes.

        Raises:
            OSError: the disk is full, or the folder cannot be written, or others can.
        """
        self.write(key, asdict(times))
