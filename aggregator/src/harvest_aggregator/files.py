"""The files that an aggregator is told by, and whether they were changed."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harvest_aggregator.identity import Admission, admission, served_by
from harvest_pki.folders import Tls, read_tls
from harvest_site.loading import load
from harvest_site.model import Site

Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Orders:
    """What the files say: the whole site, this aggregator's part of it, its certificates, and who may come."""

    site: Site
    own: Site
    tls: Tls
    admission: Admission


@dataclass(frozen=True, slots=True)
class OrderFiles:
    """Where they are."""

    site: Path
    tls: Path
    aggregator: str

    def read(self) -> Orders:
        """Read all of them; raises SiteError or PkiError, with what to do, if they make no sense alone or together."""
        site = load(self.site)
        own = served_by(site, self.aggregator)
        tls = read_tls(self.tls)
        return Orders(site, own, tls, admission(own, tls, self.aggregator))

    def stamp(self) -> Stamp:
        """Return what differs once one of them was changed or replaced."""
        return tuple(_stamps((self.site, *(self.tls / name for name in ("tls.crt", "tls.key", "ca.crt")))))


def _stamps(paths: Iterable[Path]) -> Iterable[tuple[int, int, int] | None]:
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            yield None
        else:
            yield status.st_ino, status.st_size, status.st_mtime_ns
