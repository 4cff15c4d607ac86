"""Gather, decide, apply: the whole state of a site every time."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Protocol

import structlog

from harvest_operator.agenda import Agenda, SiteKey
from harvest_operator.cluster import ConflictError, ForbiddenError, RefusedError, UnavailableError
from harvest_operator.conditions import FALSE, Reason
from harvest_operator.deciding import decide
from harvest_operator.issued import note, place_of
from harvest_operator.joinables import Joinable, is_over, joinable
from harvest_operator.manifests import Options
from harvest_operator.minting import Mint
from harvest_operator.names import MANAGED_BY, MANAGER, REQUEST, SIGNER, SITE, Key, Object, Owner, key_of, shown
from harvest_operator.plan import Plan, Target, Verb, Write, expected
from harvest_operator.reports import NoAnswer, Report
from harvest_operator.signing import Agents, Reply, is_open, reply, site_of
from harvest_operator.status import Event, Status, concluded, is_told, left_alone, transitions
from harvest_pki.authorities import Authority
from harvest_site.loading import SiteError, checked
from harvest_site.model import KIND, Site

RESYNC_SECONDS: Final = 600.0
"""A site is looked at so often even if nothing was heard of it."""
_AGAIN_SECONDS: Final = 60.0
_CONFLICT_SECONDS: Final = 1.0
_BACK_OFF_SECONDS: Final = (1.0, 2.0, 5.0, 10.0, 30.0)

_log = structlog.get_logger()


class Kubernetes(Protocol):
    """What is asked of the cluster."""

    async def get(self, namespace: str, key: Key) -> Object | None:
        """Return one object."""

    async def observe(self, owner: Owner, names: Iterable[Key]) -> dict[Key, Object]:
        """Return a site's children, and further objects by name."""

    async def write(self, write: Write) -> None:
        """Write one object."""

    async def requests(self, signer: str) -> list[Object]:
        """Return what a signer is asked to sign."""

    async def tokens(self, owner: Owner) -> list[Object]:
        """Return what is kept of tokens with which servers join a site."""

    async def answer(self, reply: Reply) -> Object:
        """Write what is said about a request."""

    async def write_status(self, owner: Owner, status: Mapping[str, Any]) -> None:
        """Write a site's status."""

    async def post(self, owner: Owner, event: Event, now: datetime) -> None:
        """Tell people about a site."""


class Aggregators(Protocol):
    """What is asked of those who ask the aggregators."""

    def follow(self, key: SiteKey, targets: tuple[Target, ...]) -> None:
        """Ask these from now on."""

    def forget(self, key: SiteKey) -> None:
        """Ask no more."""

    def reports(self, key: SiteKey) -> Mapping[str, Report | NoAnswer]:
        """Return what they said last."""


class Joinings(Protocol):
    """What is asked of those who let servers join."""

    def follow(self, key: SiteKey, site: Joinable, now: datetime) -> None:
        """Let servers join a site as it is now."""

    def close(self, key: SiteKey, why: str) -> None:
        """Give nobody a certificate until the site is followed again, and say why."""

    def forget(self, key: SiteKey) -> None:
        """Let nobody join any more."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A site that was read: kept as long as its generation, for reading costs."""

    generation: tuple[str, int]
    site: Site | SiteError


@dataclass(kw_only=True)
class Reconciler:
    """Brings sites into the state that they describe."""

    cluster: Kubernetes
    aggregators: Aggregators
    options: Options
    mint: Mint
    namespaces: Collection[str] = ()
    """Those whose sites are served; all if there are none."""
    agents: Agents | None = None
    """Those that run in the cluster."""
    joining: Joinings | None = None
    """Where servers outside it join, if anywhere."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _seen: dict[SiteKey, _Seen] = field(default_factory=dict)
    _references: dict[SiteKey, frozenset[Key]] = field(default_factory=dict)
    _wishes: dict[SiteKey, object] = field(default_factory=dict)

    def concerned(self, event: str | None, found: Object) -> list[SiteKey]:
        """Return the sites to look at because of an event; a change of a site's status is our own.

        Without a type it is of a list, after a start or a watch that broke: what else happened meanwhile is not told.
        """
        if found["kind"] == REQUEST:
            key = site_of(found) if event != "DELETED" and is_open(found) else None
            return [key] if key is not None and (not self.namespaces or key[0] in self.namespaces) else []
        metadata = found["metadata"]
        labels, namespace = metadata.get("labels") or {}, metadata["namespace"]
        if found["kind"] == KIND:
            site = namespace, metadata["name"]
            wish = metadata["uid"], metadata.get("generation"), metadata.get("annotations"), event == "DELETED"
            is_new, self._wishes[site] = self._wishes.get(site) != wish, wish
            return [site] if is_new or event is None else []
        own = [(namespace, labels[SITE])] if labels.get(MANAGED_BY) == MANAGER and SITE in labels else []
        name = key_of(found)
        return own + [site for site, names in self._references.items() if site[0] == namespace and name in names]

    async def reconcile(self, key: SiteKey) -> float | None:
        """Do what is to be done about a site; return after how many seconds to look again, nothing if it is gone."""
        body = await self.cluster.get(key[0], (KIND, key[1]))
        if body is None or "deletionTimestamp" in body["metadata"]:
            self._forget(key)
            await self._sign(key, None, None, None)
            return None
        owner, stored = Owner.of(body), body.get("status") or {}
        site = self._site(key, owner, body)
        if isinstance(site, SiteError):
            await self._tell(owner, left_alone(owner, Reason.INVALID_SITE, site, stored, self.now()), stored)
            return RESYNC_SECONDS
        names = list(expected(site, owner))
        self._references[key] = frozenset(names)
        try:
            objects = await self.cluster.observe(owner, names)
        except ForbiddenError as error:  # what cannot be seen might be there: nothing is made blindly
            await self._tell(owner, left_alone(owner, Reason.REFUSED, error, stored, self.now()), stored)
            raise
        plan = decide(site, owner, objects, options=self.options, mint=self.mint, now=self.now())
        self.aggregators.follow(key, plan.targets)
        self._open_door(key, site, owner, plan, objects)
        refused = await self._write(owner, plan.writes)
        refused += await self._sign(key, owner, site, plan.issuer)
        if self.joining is not None:
            over = [one for one in await self.cluster.tokens(owner) if is_over(one, self.now())]
            refused += await self._write(owner, [Write(Verb.DELETE, one) for one in over])
        reports = self.aggregators.reports(key)
        status = concluded(site, owner, plan, objects, refused=refused, reports=reports, stored=stored, now=self.now())
        await self._tell(owner, status, stored)
        if refused:
            return _AGAIN_SECONDS
        due = RESYNC_SECONDS if plan.look_again is None else (plan.look_again - self.now()).total_seconds()
        return min(RESYNC_SECONDS, max(due, _AGAIN_SECONDS))

    def _open_door(self, key: SiteKey, site: Site, owner: Owner, plan: Plan, objects: Mapping[Key, Object]) -> None:
        """Let servers join as the site is now, whatever else cannot be written: who was taken out is out.

        A CA that was taken away, or cannot be used, gives nobody a certificate though its key be remembered: whoever
        took it away wanted that, and it is so for requests, too. While Kubernetes says nothing, all is as it was.
        """
        if self.joining is None:
            return
        if plan.trust is not None:
            self.joining.follow(key, joinable(site, owner, plan.trust, objects), self.now())
        else:
            why = plan.certificates.message if plan.certificates.status == FALSE else "its CA is being made"
            self.joining.close(key, f"site {owner.name} in namespace {owner.namespace}: {why}")

    def _forget(self, key: SiteKey) -> None:
        self._seen.pop(key, None)
        self._references.pop(key, None)
        self._wishes.pop(key, None)
        self.aggregators.forget(key)
        if self.joining is not None:
            self.joining.forget(key)

    def _site(self, key: SiteKey, owner: Owner, body: Object) -> Site | SiteError:
        generation = owner.uid, owner.generation
        seen = self._seen.get(key)
        if seen is None or seen.generation != generation:
            try:
                site: Site | SiteError = checked(dict(body))
            except SiteError as error:
                site = error
            self._seen[key] = seen = _Seen(generation, site)
        return seen.site

    async def _write(self, owner: Owner, writes: Iterable[Write]) -> list[str]:
        """Write in order; return what was refused. Others may not depend on a Secret that could not be written."""
        refused = []
        for write in writes:
            name = shown(key_of(write.manifest))
            try:
                await self.cluster.write(write)
            except RefusedError as error:
                refused.append(f"{name}: {error}")
                _log.warning("Kubernetes refused an object", site=owner.name, object=name, reason=str(error))
                if write.verb in {Verb.CREATE, Verb.REPLACE}:
                    break
                continue
            _log.info(str(write.verb), site=owner.name, namespace=owner.namespace, object=name)
            if write.said is not None:
                await self._post(owner, Event(*write.said))
        return refused

    async def _sign(self, key: SiteKey, owner: Owner | None, site: Site | None, issuer: Authority | None) -> list[str]:
        """Say what is to be said about all requests for certificates of a site; return what was refused."""
        refused = []
        try:
            requests = await self.cluster.requests(f"{SIGNER}{key[0]}.{key[1]}")
        except ForbiddenError as error:  # agents that have certificates do without
            _log.warning("requests for certificates cannot be seen", site=key[1], namespace=key[0], reason=str(error))
            return [f"agents' requests: {error}"]
        judged = partial(reply, key=key, site=site, issuer=issuer, agents=self.agents, mint=self.mint)
        for request in filter(is_open, requests):
            now: Object = request
            try:
                while is_open(now) and (said := judged(now, now=self.now())) is not None:
                    if said.is_refusal and not await self._is_as_judged(key, owner):
                        raise ConflictError("the site was changed, and may list now whom it did not")
                    if said.issued is not None and owner is not None and site is not None:
                        await note(self.cluster, place_of(owner, site), said.issued, self.now())
                    now = await self.cluster.answer(said)
                    name = request["metadata"]["name"]
                    _log.info("answered a request", site=key[1], namespace=key[0], request=name, said=said.message)
                    if owner is not None:
                        await self._post(owner, Event(said.reason, said.message, warning=said.is_refusal))
            except RefusedError as error:
                refused.append(f"agents' requests: {error}")
                _log.warning("Kubernetes refused an answer", site=key[1], namespace=key[0], reason=str(error))
        return list(dict.fromkeys(refused))

    async def _is_as_judged(self, key: SiteKey, owner: Owner | None) -> bool:
        """Tell whether the site is still the one that was looked at: a refusal is final, and people list, then ask."""
        body = await self.cluster.get(key[0], (KIND, key[1]))
        now = None if body is None or "deletionTimestamp" in body["metadata"] else Owner.of(body)
        return (now and (now.uid, now.generation)) == (owner and (owner.uid, owner.generation))

    async def _tell(self, owner: Owner, status: Status, stored: Mapping[str, Any]) -> None:
        if is_told(stored, status):
            return
        await self.cluster.write_status(owner, status)
        for event in transitions(stored, status):
            await self._post(owner, event)

    async def _post(self, owner: Owner, event: Event) -> None:
        try:
            await self.cluster.post(owner, event, self.now())
        except (UnavailableError, RefusedError, ConflictError) as error:  # nothing depends on an event
            _log.warning("an event could not be posted", site=owner.name, about=event.reason, reason=str(error))


async def work(agenda: Agenda, reconciler: Reconciler) -> None:
    """Look at sites as they become due, for ever. What goes wrong with one is tried again, less and less often."""
    failures: dict[SiteKey, int] = {}
    while True:
        key = await agenda.next()
        try:
            again = await reconciler.reconcile(key)
            failures.pop(key, None)
        except ConflictError as error:
            _log.info("somebody else wrote first, looking again", site=key[1], reason=str(error))
            again = _CONFLICT_SECONDS
        except (UnavailableError, RefusedError) as error:
            failures[key] = failures.get(key, -1) + 1
            again = _BACK_OFF_SECONDS[min(failures[key], len(_BACK_OFF_SECONDS) - 1)]
            _log.warning(
                "Kubernetes does not answer as it should, trying again", site=key[1], reason=str(error), seconds=again
            )
        except Exception:  # noqa: BLE001 - one site's trouble is that site's alone
            again = _AGAIN_SECONDS
            _log.exception("a site could not be looked at", site=key[1], namespace=key[0])
        finally:
            agenda.done(key)
        if again is not None:
            agenda.within(key, again)
