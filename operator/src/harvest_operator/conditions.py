"""Conditions as in the Kubernetes API conventions. Pure: the clock is an argument, and moves on a transition only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

MESSAGE_MAX: Final = 1000
TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"


class Type(StrEnum):
    """What is told about a site."""

    READY = "Ready"
    AGGREGATORS_AVAILABLE = "AggregatorsAvailable"
    CERTIFICATES_VALID = "CertificatesValid"
    AGENTS_CONNECTED = "AgentsConnected"
    SLURM_REACHABLE = "SlurmReachable"
    SINKS_HEALTHY = "SinksHealthy"
    RELAYS_HEARD = "RelaysHeard"


class Reason(StrEnum):
    """Why a condition is as it is."""

    RUNNING = "Running"
    INVALID_SITE = "InvalidSite"
    MISSING_REFERENCE = "MissingReference"
    NOT_ADOPTED = "NotAdopted"
    NAME_TAKEN = "NameTaken"
    CANNOT_CHANGE = "CannotChange"
    REFUSED = "Refused"
    NOT_READY = "NotReady"
    AVAILABLE = "Available"
    UNAVAILABLE = "Unavailable"
    VALID = "Valid"
    ROTATING = "Rotating"
    CA_MISSING = "CaMissing"
    CA_UNUSABLE = "CaUnusable"
    ALL_CONNECTED = "AllConnected"
    SOME_MISSING = "SomeMissing"
    ANSWERS = "Answers"
    IN_TROUBLE = "InTrouble"
    NOT_USED = "NotUsed"
    NO_ANSWER = "NoAnswer"


MEANINGS: Final[Mapping[tuple[Type, str, Reason], str]] = {
    (Type.READY, TRUE, Reason.RUNNING): "all aggregators run as the site says",
    (Type.READY, FALSE, Reason.INVALID_SITE): "the site breaks a rule; nothing was changed",
    (Type.READY, FALSE, Reason.MISSING_REFERENCE): "what the site refers to is not there; what needs it waits",
    (Type.READY, FALSE, Reason.NOT_ADOPTED): "an earlier site's ledger or CA is there: adopt or delete it",
    (Type.READY, FALSE, Reason.NAME_TAKEN): "an object that is not ours has a name that is needed; it is left alone",
    (Type.READY, FALSE, Reason.CANNOT_CHANGE): "a volume cannot become what the site says now; it stays as it is",
    (Type.READY, FALSE, Reason.REFUSED): "Kubernetes refused an object, or a right is missing: it says why",
    (Type.READY, FALSE, Reason.NOT_READY): "certificates or aggregators are not in order: see there",
    (Type.AGGREGATORS_AVAILABLE, TRUE, Reason.AVAILABLE): "all Deployments are available",
    (Type.AGGREGATORS_AVAILABLE, FALSE, Reason.UNAVAILABLE): "some are not, or are being started",
    (Type.CERTIFICATES_VALID, TRUE, Reason.VALID): "the CA and the aggregators' certificates are in order",
    (Type.CERTIFICATES_VALID, TRUE, Reason.ROTATING): "a new CA has taken over, and the old one is still trusted",
    (Type.CERTIFICATES_VALID, FALSE, Reason.CA_MISSING): "there is no CA to issue with: nobody joins or renews",
    (Type.CERTIFICATES_VALID, FALSE, Reason.CA_UNUSABLE): "the CA is broken, expired or another site's: likewise",
    (Type.AGENTS_CONNECTED, TRUE, Reason.ALL_CONNECTED): "every agent that the site lists has an open stream",
    (Type.AGENTS_CONNECTED, FALSE, Reason.SOME_MISSING): "some have not",
    (Type.AGENTS_CONNECTED, UNKNOWN, Reason.NO_ANSWER): "an aggregator does not answer",
    (Type.SLURM_REACHABLE, TRUE, Reason.ANSWERS): "Slurm answers for every cluster that has one",
    (Type.SLURM_REACHABLE, TRUE, Reason.NOT_USED): "no cluster has Slurm",
    (Type.SLURM_REACHABLE, FALSE, Reason.IN_TROUBLE): "a cluster's Slurm, or the agent that asks it, does not answer",
    (Type.SLURM_REACHABLE, UNKNOWN, Reason.NO_ANSWER): "an aggregator does not answer",
    (Type.SINKS_HEALTHY, TRUE, Reason.ANSWERS): "all sinks, and heads that are relayed to, take what they are sent",
    (Type.SINKS_HEALTHY, TRUE, Reason.NOT_USED): "the site has no sinks and no relays",
    (Type.SINKS_HEALTHY, FALSE, Reason.IN_TROUBLE): "a sink or head does not: a relay's name is `relay CLUSTER`",
    (Type.SINKS_HEALTHY, UNKNOWN, Reason.NO_ANSWER): "an aggregator does not answer",
    (Type.RELAYS_HEARD, TRUE, Reason.ANSWERS): "every relay of `accepts` tells what it is to tell",
    (Type.RELAYS_HEARD, TRUE, Reason.NOT_USED): "the site takes in no relays",
    (Type.RELAYS_HEARD, FALSE, Reason.IN_TROUBLE): "one is silent or refused, or tells of less than before",
    (Type.RELAYS_HEARD, UNKNOWN, Reason.NO_ANSWER): "an aggregator does not answer",
}  # fmt: skip
"""Every condition that there can be, for the documentation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One statement about a site."""

    type: Type
    status: str
    reason: Reason
    message: str = ""

    def __post_init__(self) -> None:
        if (self.type, self.status, self.reason) not in MEANINGS:
            raise ValueError(f"{self.type} is never {self.status} for the reason {self.reason}")


def updated(
    stored: Sequence[Mapping[str, Any]], new: Sequence[Condition], *, generation: int, now: datetime
) -> list[dict[str, Any]]:
    """Return conditions as they are stored; each one's clock moves only if its status did."""
    before = {raw["type"]: raw for raw in stored}
    return [
        {
            "type": str(one.type),
            "status": one.status,
            "reason": str(one.reason),
            "message": one.message[:MESSAGE_MAX],
            "observedGeneration": generation,
            "lastTransitionTime": before[one.type]["lastTransitionTime"]
            if one.type in before and before[one.type]["status"] == one.status
            else timestamp(now),
        }
        for one in new
    ]


def timestamp(moment: datetime) -> str:
    """Write a moment as Kubernetes does."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
