"""Plugins that make Hydra search a folder of the user's own. This module is only imported when Hydra is used."""

from collections.abc import Callable
from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult
from hydra.plugins.search_path_plugin import SearchPathPlugin


class OwnSource(FileConfigSource):
    """A folder whose files may begin with a byte-order mark, and whose hidden files are left out."""

    @staticmethod
    def scheme() -> str:
        return "own"

    def load_config(self, config_path: str) -> ConfigResult:
        result = super().load_config(config_path)
        text = Path(self.path, self._normalize_file_name(config_path)).read_text("utf-8-sig")
        result.header = self._get_header_dict(text)  # with `@package`, which Hydra overlooks after a byte-order mark
        return result

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return [name for name in super().list(config_path, results_filter) if not name.startswith(".")]


def register_plugins(own: Callable[[], Path | None]) -> None:
    """Make Hydra search the folder that ``own`` returns, if any, before all others."""

    class OwnFolder(SearchPathPlugin):
        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            if folder := own():
                search_path.prepend("--config-dir", f"{OwnSource.scheme()}://{folder}", "main")

    Plugins.instance().register(OwnSource)
    Plugins.instance().register(OwnFolder)
