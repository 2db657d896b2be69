"""Controller for threadpoolctl: limits on OpenMP apply to the runtime's threads, limits on BLAS do not.

Importing this module registers the controller. `threadpoolctl` finds libraries by their file names, and the runtime
is the one named `_runtime`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import threadpoolctl

from autosparse._native import runtime_api
from autosparse._version import __version__


class RuntimeController(threadpoolctl.LibController):  # type: ignore[misc]  # threadpoolctl has no types
    """Controller of the runtime's thread limit in the whole process. The option `threads` takes precedence."""

    user_api: Final = "openmp"
    internal_api: Final = "autosparse"
    filename_prefixes: Final = ("_runtime",)
    check_symbols: Final = ("PyInit__runtime",)

    def __init__(self, *, filepath: str | None = None, prefix: str | None = None, parent: object = None) -> None:
        if not runtime_api.available or not Path(filepath or "").samefile(runtime_api.path()):
            raise OSError(f"{filepath!r} is not autosparse's runtime")  # threadpoolctl then skips it
        super().__init__(filepath=filepath, prefix=prefix, parent=parent)
        self._unlimited: int | None = None

    def get_num_threads(self) -> int:
        """Return the number of threads that a product uses where no option limits it."""
        limit: int = runtime_api.lib.asp_limit_threads(-1)
        if limit:
            return limit
        self._unlimited = runtime_api.max_threads()
        return self._unlimited

    def set_num_threads(self, num_threads: int) -> None:
        """Set the limit; setting the number that was reported without a limit removes the limit."""
        runtime_api.lib.asp_limit_threads(0 if num_threads == self._unlimited else num_threads)

    def get_version(self) -> str:
        """Return the version of the package."""
        return __version__


threadpoolctl.register(RuntimeController)
