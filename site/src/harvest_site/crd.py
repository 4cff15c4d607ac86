"""The CustomResourceDefinition of a HarvestSite, from the model and the rules."""

import typing
from typing import Any, Final

from harvest_site.fields import FsName, Shape, SiteName
from harvest_site.model import API_VERSION, KIND, Spec
from harvest_site.rules import RULES
from harvest_site.schemas import VALIDATIONS, Schema, matches, rule, schema_of

GROUP, _, VERSION = API_VERSION.partition("/")
PLURAL: Final = f"{KIND.lower()}s"
_KEYS: Final = {"relays": "cluster"} | dict.fromkeys(
    ("filesystems", "clusters", "accepts", "sinks", "aggregators"), "name"
)
"""By what the entries of the site's lists are known: who applies another entry of a list takes away nobody's."""
_READY: Final = '.status.conditions[?(@.type=="Ready")]'
_COLUMNS: Final = (
    ("Ready", "string", f"{_READY}.status", 0),
    ("Reason", "string", f"{_READY}.reason", 0),
    ("Agents", "string", ".status.agents", 0),
    ("Message", "string", f"{_READY}.message", 1),
    ("Age", "date", ".metadata.creationTimestamp", 0),
)


def definition() -> dict[str, Any]:
    """Return the whole resource; what it says depends on nothing but the code."""
    spec = schema_of(Spec, _KEYS)
    for known in RULES:
        for place in known.at:
            _at(spec, place).setdefault(VALIDATIONS, []).append(rule(known.cel, known.message))
    fsname = _shape(FsName)
    _at(spec, "filesystems[]").setdefault(VALIDATIONS, []).append(
        rule(f"has(self.fsname) || {matches('self.name', fsname.pattern)}", f"write {fsname.instead}")
    )
    name = _shape(SiteName)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["hs"],
                "categories": ["harvest"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": column, "type": kind, "jsonPath": path, **({"priority": priority} if priority else {})}
                        for column, kind, path, priority in _COLUMNS
                    ],
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "description": "One site: its file systems, its clusters, and where results go.",
                            "required": ["spec"],
                            "properties": {
                                "apiVersion": {"type": "string"},
                                "kind": {"type": "string"},
                                "metadata": {"type": "object"},
                                "spec": spec,
                                "status": _STATUS,
                            },
                            VALIDATIONS: [rule(matches("self.metadata.name", name.pattern), f"write {name.instead}")],
                        }
                    },
                }
            ],
        },
    }


def _at(spec: Schema, place: str) -> Schema:
    """Return the schema at a rule's place, such as ``clusters[].slurm``."""
    schema = spec
    for key in place.replace("[]", ".[]").split(".") if place else ():
        schema = schema["items"] if key == "[]" else schema["properties"][key]
    return schema


def _shape(annotated: object) -> Shape:
    return next(marker for marker in typing.get_args(annotated) if isinstance(marker, Shape))


def _text(description: str, **more: object) -> Schema:
    return {"type": "string", "description": description, **more}


_AGENTS: Final = "How many agents are connected, of how many that are expected, such as 7/8."
_CONDITION: Final[Schema] = {
    "type": "object",
    "description": "One thing that is so, or is not.",
    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
    "properties": {
        "type": _text("What it is about, such as Ready.", maxLength=64),
        "status": _text("Whether it is so.", enum=["True", "False", "Unknown"]),
        "reason": _text("Why, in one word for programs.", minLength=1, maxLength=64),
        "message": _text("Why, for people.", maxLength=32768),
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "description": "Generation of the site that was looked at.",
        },
        "lastTransitionTime": _text("When the status last changed.", format="date-time"),
    },
}
_AGGREGATOR: Final[Schema] = {
    "type": "object",
    "description": "One aggregator as it runs.",
    "required": ["name"],
    "properties": {
        "name": _text("Name of the aggregator.", maxLength=64),
        "endpoint": _text("Where agents reach it, as host:port.", maxLength=512),
        "agents": _text(_AGENTS, maxLength=32),
        "lastSweep": _text("When its last closed sweep was.", format="date-time"),
    },
}
_STATUS: Final[Schema] = {
    "type": "object",
    "description": "What was seen of the site, last.",
    "properties": {
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "description": "Generation of the site that all of this is about.",
        },
        "conditions": {
            "type": "array",
            "description": "Ready, and what it depends on.",
            "maxItems": 32,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": _CONDITION,
        },
        "agents": _text(_AGENTS, maxLength=32),
        "aggregators": {
            "type": "array",
            "description": "Every aggregator.",
            "maxItems": 16,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": _AGGREGATOR,
        },
    },
}
