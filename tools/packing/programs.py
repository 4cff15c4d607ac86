"""What is in each program's image above the base: pinned wheels, then Harvest itself."""

import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packing import layers
from packing.archive import Image, write_archive
from packing.base import PYTHON, Base, base
from packing.layers import Layer
from packing.running import ROOT, architecture, cache_folder, run, uv
from packing.wheels import SITE_PACKAGES, dependencies, install

_SCRIPT = f"""#!/usr/bin/{PYTHON} -I
import sys
from {{module}} import {{function}}
sys.exit({{function}}())
"""


@dataclass(frozen=True)
class Program:
    """A member of the workspace that runs in containers."""

    member: str
    state: str | None = None
    """The folder that it writes to, where nothing else is mounted there."""


PROGRAMS = (
    Program("aggregator", state="var/lib/harvest"),
    Program("operator"),
    Program("agent", state="var/lib/harvest-agent"),
)


def pack(target: Path, *, fresh: bool = False) -> list[Image]:
    """Write all images into one archive; `fresh` makes the base anew, of today's packages."""
    cache = cache_folder()
    below = base(cache, fresh=fresh)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        work = Path(folder)
        build_wheels(work / "wheels")
        images = [_image(program, below, cache, work) for program in PROGRAMS]
        target.parent.mkdir(parents=True, exist_ok=True)
        write_archive(target, images)
    return images


def build_wheels(folder: Path) -> None:
    """Make wheels of all members of the workspace."""
    interpreter = ROOT / ".venv/bin/python"  # it has the build backend: nothing is fetched for this
    build = ("build", "-q", "--wheel", "--no-build-isolation", "--python", interpreter, "--all-packages")
    run(uv(), *build, "-o", folder)


def archive_path() -> Path:
    """Return where `make images` leaves the archive."""
    return ROOT / f"dist/harvest-images-{version()}.tar"


def version() -> str:
    """Return the tag of all images."""
    return str(project_of("agent")["version"])


def _image(program: Program, base: Base, cache: Path, work: Path) -> Image:
    project = project_of(program.member)
    (name,) = project["scripts"]
    return Image(
        name=f"localhost/{name}:{project['version']}",
        architecture=architecture(),
        layers=(base.layer, dependencies(program.member, base, cache), _harvest(program, base, work)),
        command=[f"/usr/local/bin/{name}"],
        labels={
            "org.opencontainers.image.title": name,
            "org.opencontainers.image.version": project["version"],
            "org.opencontainers.image.description": project["description"],
            "org.opencontainers.image.licenses": project["license"],
        },
    )


def _harvest(program: Program, base: Base, work: Path) -> Layer:
    """Return the layer of the program and the members that it stands on."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        root = Path(folder)
        ours = [f"harvest-{member}" for member in members(program.member)]
        install(root / SITE_PACKAGES, "--no-index", "--find-links", str(work / "wheels"), *ours)
        base.compile(root, SITE_PACKAGES)
        for name, entry in project_of(program.member)["scripts"].items():
            module, _, function = entry.partition(":")
            script = root / "usr/local/bin" / name
            script.parent.mkdir(parents=True)
            script.write_text(_SCRIPT.format(module=module, function=function))
            script.chmod(0o755)
        own = [program.state] if program.state else []
        for path in own:
            (root / path).mkdir(parents=True)
        return layers.written(root, work / f"{program.member}.tar", of_the_user=own)


def members(member: str) -> list[str]:
    """Return a member of the workspace and all that it stands on."""
    needed = [member]
    for name in needed:  # grows meanwhile
        for dependency in project_of(name).get("dependencies", []):
            found = dependency.partition("[")[0].removeprefix("harvest-")
            if dependency.startswith("harvest-") and found not in needed:
                needed.append(found)
    return needed


def project_of(member: str) -> dict[str, Any]:
    """Return what a member says about itself."""
    project: dict[str, Any] = tomllib.loads((ROOT / member / "pyproject.toml").read_text())["project"]
    return project
