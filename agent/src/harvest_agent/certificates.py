"""What a certificate says, found out by a short-lived child: what reads it would stay in the agent's memory for ever.

The child gets the three files on its standard input, so what was checked is what is used, and says JSON.
"""

import json
import subprocess
import sys
from typing import Final

from harvest_agent.config import ConfigError

_LIMIT_SECONDS: Final = 60


def said_by_child(ca: bytes, certificate: bytes, key: bytes) -> dict[str, str]:
    """Return name, site and end of a certificate, or raise ConfigError with what is wrong with the three."""
    files = json.dumps([part.decode("latin-1") for part in (ca, certificate, key)]).encode()
    command = [sys.executable, "-m", __name__]
    try:
        child = subprocess.run(command, input=files, capture_output=True, timeout=_LIMIT_SECONDS, check=False)  # noqa: S603 - ourselves
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(f"the certificate could not be checked: {error}") from error
    if child.returncode:
        said = child.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
        raise ConfigError(f"the certificate could not be checked: {said[-1]}")
    found: dict[str, str] = json.loads(child.stdout)
    if problem := found.get("problem"):
        raise ConfigError(problem)
    return found


def checked(ca: bytes, certificate: bytes, key: bytes) -> dict[str, str]:
    """Return what the child says: that the three do not belong together, or who they speak for."""
    from harvest_pki.certificates import belongs, load_bundle, load_certificate  # noqa: PLC0415 - for the child only
    from harvest_pki.checks import issued_at  # noqa: PLC0415
    from harvest_pki.errors import PkiError  # noqa: PLC0415
    from harvest_pki.identities import Kind, identity_of  # noqa: PLC0415
    from harvest_pki.keys import load_key  # noqa: PLC0415

    try:
        load_bundle(ca)
        first = load_certificate(certificate)
        if not belongs(load_key(key), first):
            return {"problem": "certificate and key do not belong together"}
        holder = identity_of(first)
    except PkiError as error:
        return {"problem": str(error)}
    if holder.kind is not Kind.SERVER:
        return {"problem": f"this is the certificate of the {holder.kind} {holder.name}, not of a server's agent"}
    times = {"issued": issued_at(first).isoformat(), "not_after": first.not_valid_after_utc.isoformat()}
    return {"name": holder.name, "site": holder.site, **times}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(checked(*(part.encode("latin-1") for part in json.load(sys.stdin)))))
