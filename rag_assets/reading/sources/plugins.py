"""Sources that other packages bring: the entry points of the group `rag_assets.sources`.

The name of an entry point is a scheme, its value a function that makes a `Source` of a corpus's settings.
"""

from importlib.metadata import EntryPoint, entry_points

from rag_assets.config import CorpusSettings
from rag_assets.errors import SourceError
from rag_assets.reading.source import Source

GROUP = "rag_assets.sources"


def find_plugin(scheme: str) -> EntryPoint | None:
    """The entry point that reads `scheme`, None where no package brings one. Raises `SourceError` when several do."""
    found = list(entry_points(group=GROUP, name=scheme))
    if len({plugin.value for plugin in found}) > 1:
        raise SourceError(
            f"the scheme {scheme!r} is read by more than one package: {', '.join(plugin.value for plugin in found)};"
            " uninstall all but one"
        )
    return found[0] if found else None


def plugin_schemes() -> list[str]:
    """The schemes that installed packages bring."""
    return sorted(plugin.name for plugin in entry_points(group=GROUP))


def make_source(plugin: EntryPoint, corpus: CorpusSettings) -> Source:
    """The source that `plugin` makes for `corpus`. Raises `SourceError` when it cannot be imported."""
    try:
        factory = plugin.load()
    except (ImportError, AttributeError) as error:
        raise SourceError(
            f"corpus {corpus.name}: source {corpus.source} is read by the plugin {plugin.value}, which cannot be loaded:"
            f" {error}; install it again, or ask its authors"
        ) from error
    source: Source = factory(corpus)
    return source
