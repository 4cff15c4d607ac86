"""What fields are made of: texts of a shape, durations, sizes, lists without repetition.

The markers stay readable in the model (``field.metadata``): bounds and patterns are also what a schema needs.
Patterns use only what RE2 knows, too.
"""

import re
import typing
from collections import Counter
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from harvest_site.quantities import format_duration, format_size, parse_duration, parse_size

REFUSED: Final = "refused"
"""The type of errors whose message is ours."""
_SHOWN_CHARACTERS = 60


class Model(BaseModel):
    """A mapping of the site file: unknown keys are refused, nothing is converted silently, nothing changes later."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, use_attribute_docstrings=True
    )


def refused(message: str) -> PydanticCustomError:
    """Return the error that says what to write instead."""
    return PydanticCustomError(REFUSED, "{message}", {"message": message})


def shown(value: object) -> str:
    """Quote what somebody wrote, in bounds."""
    text = str(value)
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")


@dataclass(frozen=True, slots=True)
class Shape:
    """A text that must match a pattern as a whole."""

    pattern: str
    instead: str
    """What to write where it does not."""
    quoted: bool = True
    """Whether the message may repeat the text: not where people put passwords."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check after pydantic made sure that it is a text."""
        return core_schema.no_info_after_validator_function(self.checked, handler(source))

    def checked(self, text: str) -> str:
        """Return the text, or refuse it."""
        if re.fullmatch(self.pattern, text, re.ASCII) is None:
            raise refused(f"{shown(text) if self.quoted else 'this'} will not do: write {self.instead}")
        return text


@dataclass(frozen=True, slots=True)
class Duration:
    """Text such as ``20s``, kept as seconds."""

    minimum: str
    maximum: str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read text, write text; between, a number of the field's own type."""
        read = self._whole_seconds if source is int else self._seconds
        return core_schema.no_info_before_validator_function(
            read,
            handler(source),
            serialization=core_schema.plain_serializer_function_ser_schema(self.written),
        )

    @staticmethod
    def written(seconds: float) -> str:
        """Return the text of a number of seconds."""
        return format_duration(round(seconds * 1000))

    def _seconds(self, text: object) -> float:
        milliseconds = parse_duration(text) if isinstance(text, str) else None
        if milliseconds is None:
            example = f"{text}s" if isinstance(text, int) else self.maximum
            raise refused(f"{shown(text)} is no duration: write a whole number and its unit, such as {example}")
        if not (parse_duration(self.minimum) or 0) <= milliseconds <= (parse_duration(self.maximum) or 0):
            raise refused(f"{text} is out of bounds: write a duration from {self.minimum} to {self.maximum}")
        return milliseconds / 1000

    def _whole_seconds(self, text: object) -> int:
        seconds = self._seconds(text)
        if not seconds.is_integer():
            raise refused(f"{text} is not a number of whole seconds: write one, such as {self.minimum}")
        return int(seconds)


@dataclass(frozen=True, slots=True)
class Size:
    """Text such as ``10Gi``, kept as bytes."""

    minimum: str
    maximum: str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read text, write text; between, bytes."""
        return core_schema.no_info_before_validator_function(
            self._bytes,
            handler(source),
            serialization=core_schema.plain_serializer_function_ser_schema(self.written),
        )

    @staticmethod
    def written(size_bytes: int) -> str:
        """Return the text of a number of bytes."""
        return format_size(size_bytes)

    def _bytes(self, text: object) -> int:
        size = parse_size(text) if isinstance(text, str) else None
        if size is None:
            raise refused(f"{shown(text)} is no size: write a whole number and its unit, such as {self.maximum}")
        if not (parse_size(self.minimum) or 0) <= size <= (parse_size(self.maximum) or 0):
            raise refused(f"{text} is out of bounds: write a size from {self.minimum} to {self.maximum}")
        return size


@dataclass(frozen=True, slots=True)
class Address:
    """A text that is an IP address, as the Kubernetes API server takes it."""

    instead: str = "one, such as 192.0.2.7 or 2001:db8::7"

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check after pydantic made sure that it is a text."""
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def _checked(self, text: str) -> str:
        try:
            address = ip_address(text)
        except ValueError:
            address = None
        if address is None or "%" in text or getattr(address, "ipv4_mapped", None) is not None:
            raise refused(f"{shown(text)} is no IP address: write {self.instead}")
        return text


@dataclass(frozen=True, slots=True)
class Distinct:
    """A list in which nothing stands twice."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check after the entries."""
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    @staticmethod
    def _checked(values: tuple[str, ...]) -> tuple[str, ...]:
        if twice := [value for value, count in Counter(values).items() if count > 1]:
            raise refused(f"{', '.join(map(shown, twice))} stands here more than once: remove all but one")
        return values


def inner_model(annotation: object) -> type[Model] | None:
    """Return the model inside an annotation such as ``tuple[Cluster, ...]`` or ``Slurm | None``."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    arguments: tuple[Any, ...] = typing.get_args(annotation)
    return next((found for found in map(inner_model, arguments) if found is not None), None)


_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_HOST = "[A-Za-z0-9]([A-Za-z0-9_-]{0,62})([.][A-Za-z0-9]([A-Za-z0-9_-]{0,62})){0,7}"
_LABEL = "[a-z0-9]([a-z0-9-]{0,%d}[a-z0-9])?"

Name = Annotated[
    str,
    Shape("[A-Za-z0-9][A-Za-z0-9_.-]{0,31}", "1 to 32 letters, digits, '-', '_' and '.', the first no sign"),
]
SiteName = Annotated[str, Shape(_LABEL % 28, "1 to 30 small letters, digits and '-', such as example")]
AggregatorName = Annotated[str, Shape(_LABEL % 18, "1 to 20 small letters, digits and '-', such as main")]
FsName = Annotated[str, Shape("[A-Za-z0-9_-]{1,8}", "Lustre's own name of it (1 to 8 characters) as fsname")]
HostName = Annotated[str, Field(max_length=253), Shape(_HOST, "a host name, such as harvest.example")]
Endpoint = Annotated[
    str,
    Field(max_length=259),
    Shape(rf"({_HOST}|\[[0-9A-Fa-f:.]{{2,45}}\]):{_PORT}", "host:port, such as head.example:8023 or [fd00::1]:8023"),
]
Url = Annotated[
    str,
    Field(max_length=512),
    Shape(
        rf"https?://({_HOST}|\[[0-9A-Fa-f:.]{{2,45}}\])(:{_PORT})?(/[A-Za-z0-9._~/-]{{0,200}})?",
        "an address such as https://influx.example:8086, without user and password",
        quoted=False,
    ),
]
Lnet = Annotated[
    str,
    Shape(
        "[a-z]([a-z0-9]{0,14}[a-z])?([1-9][0-9]{0,8})?",
        "a Lustre network as servers print it, such as tcp or o2ib2; number 0 is left out (tcp, not tcp0)",
    ),
]
FilesystemNames = Annotated[tuple[Name, ...], Distinct(), Field(max_length=32)]
ClusterNames = Annotated[tuple[Name, ...], Distinct(), Field(max_length=32)]
Lnets = Annotated[tuple[Lnet, ...], Distinct(), Field(max_length=16)]
