"""What a rule is."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from harvest_site.model import Spec

Path = tuple[str | int, ...]
"""Where in the spec: ``("clusters", 0, "slurm")``."""
Finding = tuple[Path, str]
"""Where a rule is broken, and by what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Something that must hold across fields, said twice: for Python, and for the Kubernetes API server."""

    id: str
    at: tuple[str, ...]
    """Places in the schema where the CEL text stands, ``""`` for the spec itself: ``clusters[].slurm``."""
    reads: tuple[str, ...]
    """Keys of the spec that the check looks at; without one of them it is not asked."""
    check: Callable[[Spec], Iterable[Finding]]
    cel: str
    """True where the rule is kept; ``self`` is the place. It may see less than the check, never more."""
    message: str
    """What to write instead; the same words from both."""
