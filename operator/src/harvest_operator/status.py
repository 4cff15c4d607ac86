"""What is told about a site: conditions, and a line per aggregator. Pure: the clock is an argument."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from harvest_operator.conditions import (
    FALSE,
    MESSAGE_MAX,
    TRUE,
    UNKNOWN,
    Condition,
    Reason,
    Type,
    timestamp,
    updated,
)
from harvest_operator.manifests import service_of
from harvest_operator.names import DEPLOYMENT, GRPC_PORT, SERVICE, Key, Object, Owner
from harvest_operator.plan import Plan, Problem
from harvest_operator.reports import NoAnswer, Report
from harvest_site.model import Site
from harvest_site.placement import Aggregator
from harvest_site.views import aggregators_of, slurm_agents_of

Status = dict[str, Any]
Reports = Mapping[str, Report | NoAnswer]
"""By aggregator; one that was not asked yet is not in it."""

ANY_NODE: Final = "ANY-NODE"
"""Stands for the address of any node of the cluster."""
_SWEEP_MOVES: Final = timedelta(minutes=9)
"""The time of the last sweep is written anew when it is so much older than the true one: sweeps come every 20 s."""
_NAMED: Final = 5
_NOT_ASKED: Final = NoAnswer("it was not asked yet")
_EARLY: Final = {Reason.NOT_READY, Reason.UNAVAILABLE, Reason.NO_ANSWER, Reason.SOME_MISSING}
"""What is no news of a site that has just been made."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that an admin would want to read."""

    reason: str
    message: str
    warning: bool = False


def concluded(
    site: Site,
    owner: Owner,
    plan: Plan,
    objects: Mapping[Key, Object],
    *,
    refused: Sequence[str],
    reports: Reports,
    stored: Mapping[str, Any],
    now: datetime,
) -> Status:
    """Return the status of a site that was looked at."""
    problems = [*plan.problems, *(Problem(Reason.REFUSED, text) for text in refused)]
    available = _available(site, owner, objects)
    told = {one.name: reports.get(one.name, _NOT_ASKED) for one in aggregators_of(site)}
    before = {raw["type"]: raw.get("message", "") for raw in stored.get("conditions", ())}
    pending = {one.aggregator for one in plan.targets} - set(reports)
    reported = [
        _connected(told),
        _steady(
            _untroubled(Type.SLURM_REACHABLE, told, lambda one: one.slurm, used=bool(slurm_agents_of(site))), before
        ),
        _steady(
            _untroubled(
                Type.SINKS_HEALTHY, told, lambda one: one.sinks, used=bool(site.spec.sinks or site.spec.relays)
            ),
            before,
        ),
        _steady(_untroubled(Type.RELAYS_HEARD, told, lambda one: one.relays, used=bool(site.spec.accepts)), before),
    ]
    new = [
        _ready(problems, (plan.certificates, available)),
        available,
        plan.certificates,
        *(_remembered(reported, stored) if pending else reported),
    ]
    lines = [_line(site, owner, one, objects, told[one.name]) for one in aggregators_of(site)]
    lines = _unhurried(lines, stored.get("aggregators", ()), pending)
    return {
        "observedGeneration": owner.generation,
        "conditions": updated(stored.get("conditions", ()), new, generation=owner.generation, now=now),
        "agents": _summed(line["agents"] for line in lines),
        "aggregators": lines,
    }


def left_alone(owner: Owner, reason: Reason, error: Exception, stored: Mapping[str, Any], now: datetime) -> Status:
    """Return the status of a site about which nothing can be decided: the rest stays as it was.

    It breaks rules which Kubernetes cannot check, or we may not see all that belongs to it.
    """
    why = "; ".join(str(error).splitlines())
    new = Condition(type=Type.READY, status=FALSE, reason=reason, message=why)
    conditions = updated(stored.get("conditions", ()), [new], generation=owner.generation, now=now)
    others = [raw for raw in _ours(stored) if raw["type"] != Type.READY]
    kept = {name: stored[name] for name in ("agents", "aggregators") if name in stored}
    return {"observedGeneration": owner.generation, "conditions": [*conditions, *others], **kept}


def is_told(stored: Mapping[str, Any], status: Status) -> bool:
    """Tell whether a status is stored as it is; conditions of others are theirs."""
    return {**stored, "conditions": _ours(stored)} == status


def _ours(stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    there = {raw["type"]: raw for raw in stored.get("conditions", ())}
    return [there[kind] for kind in Type if kind in there]


def transitions(stored: Mapping[str, Any], new: Status) -> Iterator[Event]:
    """Return what became otherwise: a condition's status, or why a site is not ready."""
    before = {raw["type"]: raw for raw in stored.get("conditions", ())}
    for one in new["conditions"]:
        was = before.get(one["type"])
        is_ready = one["type"] == Type.READY
        if was is None:
            is_news = one["status"] == FALSE and one["reason"] not in _EARLY
        else:
            is_news = was["status"] != one["status"] or (is_ready and was["reason"] != one["reason"])
        if is_news and one["status"] != UNKNOWN:
            yield Event(one["type"] if one["status"] == TRUE else one["reason"], one["message"], one["status"] == FALSE)


def _ready(problems: Sequence[Problem], others: Iterable[Condition]) -> Condition:
    not_so = [one for one in others if one.status != TRUE]
    if problems:
        reason = problems[0].reason
        message = "; ".join([one.message for one in problems] + [one.message for one in not_so])
    elif not_so:
        reason, message = Reason.NOT_READY, "; ".join(one.message for one in not_so)
    else:
        reason, message = Reason.RUNNING, "all aggregators run as the site says"
    status = TRUE if reason is Reason.RUNNING else FALSE
    return Condition(type=Type.READY, status=status, reason=reason, message=message)


def _available(site: Site, owner: Owner, objects: Mapping[Key, Object]) -> Condition:
    troubles = [
        f"{one.name}: {trouble}"
        for one in aggregators_of(site)
        if (trouble := _trouble(objects.get((DEPLOYMENT, owner.base(one.name))))) is not None
    ]
    if troubles:
        return Condition(
            type=Type.AGGREGATORS_AVAILABLE, status=FALSE, reason=Reason.UNAVAILABLE, message="; ".join(troubles)
        )
    return Condition(
        type=Type.AGGREGATORS_AVAILABLE, status=TRUE, reason=Reason.AVAILABLE, message="all Deployments are available"
    )


def _trouble(found: Object | None) -> str | None:
    """Say why a Deployment is not available, in Kubernetes' words."""
    if found is None:
        return "it has no Deployment yet"
    status = found.get("status") or {}
    if status.get("observedGeneration", 0) < found["metadata"].get("generation", 0):
        return "its Deployment is being changed"
    told = {one["type"]: one for one in status.get("conditions") or ()}
    if (failure := told.get("ReplicaFailure")) is not None and failure["status"] == TRUE:
        return str(failure.get("message", "no Pod can be made"))
    if (available := told.get("Available")) is None or available["status"] != TRUE:
        stuck = (told.get("Progressing") or {}).get("reason") == "ProgressDeadlineExceeded"
        return "its Pod does not become ready" if stuck else "its Pod is being started"
    return None


def _connected(told: Reports) -> Condition:
    away = [one for one in told.values() if isinstance(one, Report) and one.connected < one.expected]
    if away:
        lacking = sum(one.expected - one.connected for one in away)
        names = list(dict.fromkeys(name for one in away for name in one.missing))
        few = ", ".join(names[:_NAMED]) + (", …" if lacking > _NAMED else "")
        text = (
            f"{lacking} of {sum(one.expected for one in told.values() if isinstance(one, Report))} are missing: {few}"
        )
        return Condition(type=Type.AGENTS_CONNECTED, status=FALSE, reason=Reason.SOME_MISSING, message=text)
    return _silent(Type.AGENTS_CONNECTED, told) or Condition(
        type=Type.AGENTS_CONNECTED, status=TRUE, reason=Reason.ALL_CONNECTED, message="all agents are connected"
    )


def _untroubled(
    kind: Type, told: Reports, of: Callable[[Report], Iterable[tuple[str, str]]], *, used: bool
) -> Condition:
    if not used:
        return Condition(type=kind, status=TRUE, reason=Reason.NOT_USED, message="the site has none")
    found = dict.fromkeys(f"{name}: {why}" for one in told.values() if isinstance(one, Report) for name, why in of(one))
    if found:
        return Condition(type=kind, status=FALSE, reason=Reason.IN_TROUBLE, message="; ".join(found))
    return _silent(kind, told) or Condition(
        type=kind, status=TRUE, reason=Reason.ANSWERS, message="there is no trouble"
    )


def _silent(kind: Type, told: Reports) -> Condition | None:
    silent = [f"{name}: {one.why}" for name, one in told.items() if isinstance(one, NoAnswer)]
    if not silent:
        return None
    return Condition(type=kind, status=UNKNOWN, reason=Reason.NO_ANSWER, message="; ".join(silent))


def _remembered(new: Iterable[Condition], stored: Mapping[str, Any]) -> list[Condition]:
    """Let stand what was told while somebody is still to be asked: an operator that has just begun knows nothing."""
    before = {raw["type"]: raw for raw in stored.get("conditions", ())}
    return [_as_it_was(one, before.get(one.type)) for one in new]


def _as_it_was(new: Condition, was: Mapping[str, Any] | None) -> Condition:
    if was is None or Reason.NOT_USED in {new.reason, was["reason"]}:
        return new
    return Condition(type=new.type, status=was["status"], reason=Reason(was["reason"]), message=was["message"])


def _steady(new: Condition, before: Mapping[str, str]) -> Condition:
    """Keep the message as it was written if only numbers in it changed: they may do so with every look."""
    was = before.get(new.type, "")
    if re.sub("[0-9.]+", "#", was) != re.sub("[0-9.]+", "#", new.message[:MESSAGE_MAX]):
        return new
    return Condition(type=new.type, status=new.status, reason=new.reason, message=was)


def _line(
    site: Site, owner: Owner, one: Aggregator, objects: Mapping[Key, Object], told: Report | NoAnswer
) -> dict[str, str]:
    if isinstance(told, Report):
        agents = f"{told.connected}/{told.expected}"
    else:
        servers = [fs.server_names for fs in site.spec.filesystems if fs.name in one.filesystems]
        agents = f"?/{len(frozenset(slurm_agents_of(site).values()).union(*servers))}"
    endpoint = endpoint_of(site, owner, one, objects.get((SERVICE, owner.base(one.name))))
    sweep = told.last_sweep if isinstance(told, Report) else None
    return {
        "name": one.name,
        **({"endpoint": endpoint} if endpoint else {}),
        "agents": agents,
        **({"lastSweep": timestamp(sweep)} if sweep else {}),
    }


def _summed(told: Iterable[str]) -> str:
    """Add up what is told of all aggregators; an agent counts once for each that it is to report to."""
    connected, expected = zip(*(one.split("/") for one in told), strict=True)
    known = "?" if "?" in connected else str(sum(map(int, connected)))
    return f"{known}/{sum(map(int, expected))}"


def endpoint_of(site: Site, owner: Owner, one: Aggregator, found: Object | None) -> str | None:
    """Return what agents write as their uplink's address, as far as anybody can know it."""
    wanted = service_of(site, one)
    host = next(iter((*wanted.hostnames, *wanted.addresses)), None)
    if wanted.type == "NodePort":
        ports = [] if found is None else found["spec"].get("ports", [])
        port = next((entry.get("nodePort") for entry in ports if entry.get("name") == "grpc"), None)
        return None if port is None else _joined(host or ANY_NODE, port)
    if wanted.type == "LoadBalancer" and host is None and found is not None:
        ingress = ((found.get("status") or {}).get("loadBalancer") or {}).get("ingress") or [{}]
        host = ingress[0].get("hostname") or ingress[0].get("ip")
    elif wanted.type == "ClusterIP" and host is None:
        host = f"{owner.base(one.name)}.{owner.namespace}.svc"
    return None if host is None else _joined(host, GRPC_PORT)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _unhurried(
    lines: list[dict[str, str]], stored: Sequence[Mapping[str, str]], pending: Container[str]
) -> list[dict[str, str]]:
    """Keep the times of last sweeps as they were written while they are not much too old and nothing else changed.

    Of those who are still to be asked the number of agents is kept, too.
    """
    before = {line["name"]: line for line in stored}
    told = [
        {**line, "agents": before[line["name"]]["agents"]}
        if line["name"] in before and line["name"] in pending
        else line
        for line in lines
    ]
    return [_kept(line, before.get(line["name"])) for line in told]


def _kept(line: dict[str, str], was: Mapping[str, str] | None) -> dict[str, str]:
    if was is None or "lastSweep" not in was:
        return line
    if "lastSweep" not in line:  # nobody answers: the last that was known
        return {**line, "lastSweep": was["lastSweep"]}
    moved = abs(datetime.fromisoformat(line["lastSweep"]) - datetime.fromisoformat(was["lastSweep"]))
    is_other = any(line.get(name) != was.get(name) for name in ("endpoint", "agents"))
    return line if is_other or moved >= _SWEEP_MOVES else {**line, "lastSweep": was["lastSweep"]}
