"""What is to be done about a site, from what it says and what is there. Pure: clock and randomness are arguments."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any, Final

from harvest_operator import authorities, certificates, manifests, sidecars
from harvest_operator.authorities import NoAuthorityError, Trust
from harvest_operator.certificates import Holder
from harvest_operator.comparing import digest, marked, needs
from harvest_operator.conditions import FALSE, TRUE, Condition, Reason, Type
from harvest_operator.manifests import Manifest, Options
from harvest_operator.minting import Made, Mint
from harvest_operator.names import (
    ADOPT,
    AGGREGATOR,
    APPLIED,
    CONFIG_MAP,
    DEPLOYMENT,
    FINISH_CA_ROTATION,
    KINDS,
    ROTATE_CA,
    SECRET,
    SITE_UID,
    VOLUME_CLAIM,
    Key,
    Object,
    Owner,
    key_of,
    shown,
)
from harvest_operator.plan import Plan, Problem, Target, Verb, Write, expected
from harvest_operator.references import Reference, data_of, fingerprint, read_once, used_by_aggregator, used_by_sidecar
from harvest_operator.sidecars import Sidecar, sidecars_of
from harvest_pki.errors import PkiError
from harvest_pki.identities import Identity, Kind
from harvest_site.model import Site
from harvest_site.placement import Aggregator
from harvest_site.quantities import parse_size
from harvest_site.views import aggregators_of

_CA_ENDS: Final = timedelta(days=365)
"""So long before its end people are told: agents must get new certificates, too."""


def decide(
    site: Site, owner: Owner, objects: Mapping[Key, Object], *, options: Options, mint: Mint, now: datetime
) -> Plan:
    """Compare what should be with what is there."""
    return _Decision(site, owner, objects, options, mint, now).plan()


class _Decision:
    """One look at one site."""

    def __init__(
        self, site: Site, owner: Owner, objects: Mapping[Key, Object], options: Options, mint: Mint, now: datetime
    ) -> None:
        self._site = site
        self._aggregators = aggregators_of(site)
        self._owner = owner
        self._objects = objects
        self._options = options
        self._mint = mint
        self._now = now
        self._writes: list[Write] = []
        self._problems: list[Problem] = []

    def plan(self) -> Plan:
        self._prune()  # first: a port that one Service gives up may be another's
        condition, trust, stored = self._authority()
        is_stored = (SECRET, self._owner.ca) not in {key_of(write.manifest) for write in self._writes}
        token = self._token()
        for one in self._aggregators:
            self._aggregator(one, trust, token)
        if trust is not None:  # last: agents are told of a CA only after the aggregators
            self._agents(trust)
        return Plan(
            writes=tuple(self._writes),
            problems=tuple(dict.fromkeys(self._problems)),
            certificates=self._noting_relays(condition),
            issuer=trust.for_agents if trust is not None and is_stored else None,
            trust=stored,
            targets=tuple(self._targets(trust, token)),
            look_again=certificates.next_due(
                self._objects[key]
                for key in ((SECRET, self._owner.tls(one.name)) for one in self._aggregators)
                if key in self._objects
            ),
        )

    def _prune(self) -> None:
        wanted = set(expected(self._site, self._owner))
        for key, found in self._objects.items():
            if key in wanted or not self._owner.owns(found) or "deletionTimestamp" in found["metadata"]:
                continue
            if key[0] == VOLUME_CLAIM and self._is_retained:
                self._apply(self._released(found))
            else:
                self._writes.append(Write(Verb.DELETE, found, ("Pruned", f"{shown(key)} is wanted no more")))

    def _released(self, found: Object) -> Manifest:
        """Return the claim of an aggregator that is no more, as it is, but no longer the site's child."""
        labels = found["metadata"].get("labels") or {}
        metadata = self._owner.metadata(found["metadata"]["name"], labels.get(AGGREGATOR), kept=True)
        kept = ("accessModes", "resources", "storageClassName")
        spec = {name: found["spec"][name] for name in kept if name in found["spec"]}
        return {"apiVersion": KINDS[VOLUME_CLAIM][0], "kind": VOLUME_CLAIM, "metadata": metadata, "spec": spec}

    def _authority(self) -> tuple[Condition, Trust | None, Trust | None]:
        """Return how the CA stands, who is trusted from now on, and who is so far: as it is stored."""
        try:
            trust, stored = self._trust()
        except NoAuthorityError as error:
            there = (self._given or (SECRET, self._owner.ca)) in self._objects
            return _certificates(Reason.CA_UNUSABLE if there else Reason.CA_MISSING, str(error)), None, None
        end = trust.issuer.certificate.not_valid_after_utc
        if self._now >= end:
            said = f"the CA expired on {end:%Y-%m-%d}: {self._how_to_rotate}"
            return _certificates(Reason.CA_UNUSABLE, said), None, None
        if trust.rotation is not None:
            said = (
                f"rotation {trust.rotation}: give every agent new files, then "
                f"`kubectl annotate hs {self._owner.name} {FINISH_CA_ROTATION}={trust.rotation}`"
            )
            return _certificates(Reason.ROTATING, said), trust, stored
        ends = f", which ends on {end:%Y-%m-%d}: {self._how_to_rotate}" if self._now >= end - _CA_ENDS else ""
        said = f"issued by the CA of the site{ends}{self._earlier(trust)}"
        return _certificates(Reason.VALID, said), trust, stored

    def _noting_relays(self, condition: Condition) -> Condition:
        """Say which relays soon have no certificate that is valid: another site must give them the next."""
        notes = certificates.ending_relays(self._site, self._objects, self._now)
        return dataclasses.replace(condition, message="; ".join([condition.message, *notes]))

    def _earlier(self, trust: Trust) -> str:
        """Say that CAs from before are trusted, too: one that was lost, or one that somebody left in the Secret."""
        if len(trust.bundle) == 1:
            return ""
        if self._given is not None:
            how = f"when every agent has new files, take it out of {shown(self._given)}"
        else:
            how = f"to end that, {self._how_to_rotate}, and go on as with any rotation"
        return f"; an earlier CA is still trusted, too: {how}"

    @property
    def _given(self) -> Key | None:
        ref = self._site.spec.certificates.ca_secret_ref
        return None if ref is None else (SECRET, ref.name)

    @property
    def _how_to_rotate(self) -> str:
        if self._given is not None:
            return f"put a new one into {shown(self._given)}"
        return f"`kubectl annotate hs {self._owner.name} {ROTATE_CA}={self._now:%Y-%m}`"

    def _trust(self) -> tuple[Trust, Trust | None]:
        """Return who is trusted after this look, and who is before it."""
        owner = self._owner
        if self._given is not None:
            given = authorities.given_authority(self._objects.get(self._given), owner, self._given[1])
            return given, given
        metadata = owner.metadata(owner.ca, kept=self._is_retained)
        found = self._objects.get((SECRET, owner.ca))
        users = [key for one in self._aggregators if (key := (SECRET, owner.tls(one.name))) in self._objects]
        if found is None:
            in_use = [self._objects[key] for key in users if owner.owns(self._objects[key])]
            made, trust = authorities.new_authority(owner, metadata, in_use, self._mint, self._now)
            self._make(made)
            return trust, None
        if not self._may_keep((SECRET, owner.ca), found, users):
            raise NoAuthorityError(f"secret/{owner.ca} may not be used")
        stored = authorities.own_authority(found, owner)
        turned, trust = authorities.turned(found, stored, owner, metadata, self._mint, self._now)
        self._make(turned)
        return trust, stored

    def _token(self) -> str | None:
        key = SECRET, self._owner.token
        if not self._is_free(key):
            return None
        made, token = certificates.token(self._objects.get(key), self._owner.metadata(key[1]), self._mint)
        self._make(made)
        return token

    def _agents(self, trust: Trust) -> None:
        if self._owner.agents in map(self._owner.base, (one.name for one in self._aggregators)):
            self._problem(
                Reason.NAME_TAKEN, (CONFIG_MAP, self._owner.agents), "is an aggregator's: call that something else"
            )
            return
        self._apply(manifests.agents_config_map(self._site, self._owner, trust.pem))

    def _aggregator(self, one: Aggregator, trust: Trust | None, token: str | None) -> None:
        site, owner = self._site, self._owner
        references = used_by_aggregator(site, one)
        self._is_complete(references)
        beside = [side for side in sidecars_of(site, one) if self._is_complete(self._needs(side))]
        has_certificate = self._certificate(one, beside, trust)
        applied = [
            self._apply(manifests.config_map(site, owner, one, beside)),
            self._apply(self._volume(one)),
            self._apply(manifests.service(site, owner, one)),
        ]
        if not all(applied) or not has_certificate or token is None:
            return  # a Deployment that is there stays as it is: it may well run
        configs = [sidecars.config_of(side, site, owner, one.name) for side in beside]  # agents read theirs only once
        used = [*read_once(site), *(need for side in beside for need in self._needs(side))]
        self._apply(
            manifests.deployment(
                owner,
                one,
                self._options,
                references=references,
                beside=beside,
                fingerprint=digest([fingerprint(used, self._objects), token, *configs]),
            )
        )

    def _needs(self, side: Sidecar) -> list[Reference]:
        return used_by_sidecar(next(one for one in self._site.spec.clusters if one.name == side.cluster))

    def _certificate(self, one: Aggregator, beside: list[Sidecar], trust: Trust | None) -> bool:
        """Write what is due; tell whether the aggregator has, or gets, a certificate."""
        key = SECRET, self._owner.tls(one.name)
        if not self._is_free(key):
            return False
        found = self._objects.get(key)
        holders = [self._holder(one), *(self._holder_beside(side) for side in beside)]
        if trust is None:
            needed = {name for holder in holders for name in holder.keys}
            return found is not None and needed <= data_of(found).keys()
        metadata = self._owner.metadata(key[1], one.name)
        try:
            self._make(certificates.certificates(found, holders, trust, metadata, self._mint, self._now))
        except PkiError as error:
            self._problems.append(Problem(Reason.NOT_READY, f"no certificate for {one.name}: {error}"))
            return found is not None
        return True

    def _holder(self, one: Aggregator) -> Holder:
        service = manifests.service_of(self._site, one)
        names = {name for name in service.hostnames if not name.lower().endswith(".harvest")}  # ours to give
        addresses = {str(ip_address(address)) for address in service.addresses}
        identity = Identity(site=self._owner.name, kind=Kind.AGGREGATOR, name=one.name)
        return Holder(identity=identity, hosts=frozenset(names | addresses))

    def _holder_beside(self, side: Sidecar) -> Holder:
        return Holder(
            identity=Identity(site=self._owner.name, kind=Kind.SERVER, name=side.agent),
            keys=side.certificate_keys,
            lifetime=timedelta(seconds=self._site.spec.certificates.agent_lifetime_seconds),
        )

    def _volume(self, one: Aggregator) -> Manifest | None:
        """Return the volume's claim; what cannot be changed about one that is there stays as it is."""
        wanted = manifests.volume_claim(self._site, self._owner, one)
        found = self._objects.get(key_of(wanted))
        if found is None:
            return wanted
        if not self._may_keep(key_of(wanted), found, [(DEPLOYMENT, self._owner.base(one.name))]):
            return None
        spec: dict[str, Any] = wanted["spec"]
        there = found["spec"]["resources"]["requests"]["storage"]
        asked = spec["resources"]["requests"]["storage"]
        if (parse_size(there) or 0) > (parse_size(asked) or 0):
            self._problem(Reason.CANNOT_CHANGE, key_of(wanted), f"has {there} and cannot shrink to {asked}")
            spec["resources"] = {"requests": {"storage": there}}
        class_name = found["spec"].get("storageClassName", "")
        if spec.get("storageClassName", class_name) != class_name:
            text = f"is of the class {class_name!r} and cannot become {spec['storageClassName']!r}"
            self._problem(Reason.CANNOT_CHANGE, key_of(wanted), text)
            spec["storageClassName"] = class_name
        return wanted

    @property
    def _is_retained(self) -> bool:
        return self._site.spec.ledger.reclaim == "Retain"

    def _may_keep(self, key: Key, found: Object, users: Sequence[Key]) -> bool:
        """Tell whether an object that outlives sites is this site's, or may become it.

        Where somebody took its mark away, those who use it are of this site, and tell whose it is.
        """
        claims, keeps = self._owner.claims(found), self._owner.keeps(found)
        is_used = any(user in self._objects and self._owner.owns(self._objects[user]) for user in users)
        is_unmarked = SITE_UID not in (found["metadata"].get("annotations") or {})
        if keeps or (claims and self._owner.annotations.get(ADOPT) == "true") or (is_unmarked and is_used):
            return True
        if claims:
            text = (
                "is kept from an earlier site of this name: "
                f"`kubectl annotate hs {self._owner.name} {ADOPT}=true` goes on with it; or delete it"
            )
            self._problem(Reason.NOT_ADOPTED, key, text)
        else:
            self._problem(Reason.NAME_TAKEN, key, "is not Harvest's: rename or delete it, or rename the site")
        return False

    def _is_free(self, key: Key) -> bool:
        found = self._objects.get(key)
        if found is None or self._owner.claims(found):
            return True
        self._problem(Reason.NAME_TAKEN, key, "is not Harvest's: rename or delete it, or rename the aggregator")
        return False

    def _is_complete(self, references: list[Reference]) -> bool:
        missing = [text for one in references if (text := one.missing(self._objects)) is not None]
        self._problems += [Problem(Reason.MISSING_REFERENCE, text) for text in missing]
        return not missing

    def _problem(self, reason: Reason, key: Key, text: str) -> None:
        self._problems.append(Problem(reason, f"{shown(key)} {text}"))

    def _apply(self, manifest: Manifest | None) -> bool:
        """Apply a manifest if that changes anything; tell whether it may be there."""
        if manifest is None:
            return False
        key = key_of(manifest)
        found = self._objects.get(key)
        if key[0] != VOLUME_CLAIM and not self._is_free(key):
            return False
        wanted = marked(manifest)
        if needs(found, wanted):
            self._writes.append(Write(Verb.APPLY, wanted, _said(key, found, wanted)))
        return True

    def _make(self, made: Made | None) -> None:
        if made is not None:
            verb = Verb.REPLACE if "resourceVersion" in made.manifest["metadata"] else Verb.CREATE
            self._writes.append(Write(verb, made.manifest, made.said))

    def _targets(self, trust: Trust | None, token: str | None) -> Iterator[Target]:
        if trust is None or token is None:
            return
        for one in self._aggregators:
            yield Target(
                aggregator=one.name,
                service=self._owner.base(one.name),
                server_name=Identity(site=self._owner.name, kind=Kind.AGGREGATOR, name=one.name).text,
                token=token,
                ca=trust.pem,
            )


def _said(key: Key, found: Object | None, wanted: Object) -> tuple[str, str]:
    if found is None:
        return "Created", f"{shown(key)} was made"
    if (found["metadata"].get("annotations") or {}).get(APPLIED) == wanted["metadata"]["annotations"][APPLIED]:
        return "Repaired", f"{shown(key)} was changed by somebody, and is now as the site says"
    return "Updated", f"{shown(key)} is now as the site says"


def _certificates(reason: Reason, message: str) -> Condition:
    status = TRUE if reason in {Reason.VALID, Reason.ROTATING} else FALSE
    if status == FALSE:
        message = f"{message}; until then nobody gets a certificate, and none is renewed"
    return Condition(type=Type.CERTIFICATES_VALID, status=status, reason=reason, message=message)
