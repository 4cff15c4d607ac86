"""YAML text to plain values: bounded, no key twice, nothing but what JSON has."""

from typing import Any, Final, Never

import yaml
from typing_extensions import override

from harvest_site.fields import shown

TEXT_BYTES_MAX: Final = 1 << 20
_VALUES_MAX: Final = 100_000
"""Counted where they are used: text of a kilobyte can name billions by its anchors."""
_DEPTH_MAX: Final = 32


class DocumentError(ValueError):
    """The text is no document that could be a site; each line says why."""


class _Loader(yaml.SafeLoader):
    """YAML as ``kubectl`` takes it; keys that stand twice are noted."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.repeated: list[str] = []

    @override
    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        first: dict[str, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                if key.value in first:
                    self.repeated.append(
                        f"line {line}: {shown(key.value)} stands in line {first[key.value]} already: remove one"
                    )
                first.setdefault(key.value, line)
        return node


# Dates stay text, as in JSON.
_Loader.yaml_implicit_resolvers = {
    start: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for start, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse(text: str) -> object:
    """Return the one document in the text."""
    if len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES_MAX:
        raise DocumentError(f"the text is larger than {TEXT_BYTES_MAX >> 20} MiB: write a smaller one")
    try:
        loader = _Loader(text)
        value = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        raise DocumentError(_explained(error)) from None
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentError(f"this is no YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        _refuse_depth()
    if loader.repeated:
        raise DocumentError("\n".join(loader.repeated))
    return _Copy().plain(value, 0)


def _explained(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}: " if mark is not None else ""
    return f"{where}this is no YAML: {error.problem or error.context}"


def _refuse_depth() -> Never:
    raise DocumentError(f"values are nested deeper than {_DEPTH_MAX} levels: write them flatter")


class _Copy:
    """Copies values, counting them."""

    def __init__(self) -> None:
        self._left = _VALUES_MAX

    def plain(self, value: object, depth: int) -> object:
        self._left -= 1
        if self._left < 0:
            raise DocumentError(f"there are more than {_VALUES_MAX} values: write fewer, and fewer aliases")
        if depth > _DEPTH_MAX:
            _refuse_depth()
        if isinstance(value, dict):
            return {self._key(key): self.plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.plain(item, depth + 1) for item in value]
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        raise DocumentError(
            f"{shown(value)} is a {type(value).__name__}: write texts, numbers, lists and mappings only"
        )

    def _key(self, key: object) -> str:
        if not isinstance(key, str):
            raise DocumentError(f"{shown(key)} is a key but no text: write it in quotes")
        return self._text(key)

    @staticmethod
    def _text(text: str) -> str:
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise DocumentError(f"{shown(text.encode('ascii', 'backslashreplace').decode())} is no Unicode text")
        return text
