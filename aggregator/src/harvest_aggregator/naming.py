"""How the jobs of a site are called, as text: for those who must know later how they were called before."""

import json

from harvest_core.job_ids import JobIdFormat
from harvest_core.jobs.identity import ClusterIds, Identities


def naming_of(identities: Identities) -> str:
    """Return all that names depend on."""
    return json.dumps(
        [
            [one.cluster, sorted(one.filesystems), None if one.format is None else one.format.text, one.range]
            for one in identities.clusters
        ]
    )


def identities_of(naming: str) -> Identities:
    """Return what such a text is of."""
    return Identities(
        ClusterIds(
            cluster=cluster,
            filesystems=frozenset(filesystems),
            format=None if text is None else JobIdFormat.compile(text),
            range=None if numbers is None else (numbers[0], numbers[1]),
        )
        for cluster, filesystems, text, numbers in json.loads(naming)
    )
