"""The rules table: everything that must hold across fields, each once.

A new rule is one ``Rule`` beside its kin, and one bad example in ``tests/data/sites/bad``.
"""

from typing import Final

from harvest_site.rules import jobs, names, networks, references, settings
from harvest_site.rules.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    *names.RULES,
    *references.RULES,
    *networks.RULES,
    *jobs.RULES,
    *settings.RULES,
)
