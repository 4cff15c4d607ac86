"""What `make images` makes, laid out and run as a container would: its own files only, read-only, another user."""

import os
from pathlib import Path

import pytest

from packing.layers import USER
from packing.programs import pack
from support.images import LaidOut, lay_out

ROOT = Path(__file__).parents[2]
PROGRAMS = ["harvest-aggregator", "harvest-operator", "harvest-agent"]


@pytest.fixture(scope="module")
def images(image_archive: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, LaidOut]:
    return {image.root.name: image for image in lay_out(image_archive, tmp_path_factory.mktemp("laid-out"))}


def test_there_is_an_image_for_each_program(images: dict[str, LaidOut]) -> None:
    assert sorted(images) == sorted(PROGRAMS)
    assert {image.name.partition(":")[0] for image in images.values()} == {f"localhost/{name}" for name in PROGRAMS}


def test_the_same_tree_gives_the_same_bytes(image_archive: Path, tmp_path: Path) -> None:
    pack(tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == image_archive.read_bytes()


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_starts_as_nobody_special_on_files_that_cannot_be_written(
    program: str, images: dict[str, LaidOut]
) -> None:
    ran = images[program].run("--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"usage: {program} ")


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_is_inside_that_only_builders_testers_and_intruders_want(
    program: str, images: dict[str, LaidOut]
) -> None:
    files = [path for path in images[program].root.rglob("*") if not path.is_symlink()]
    assert len(files) > 1000
    names = {path.name for path in files if path.is_file() and os.access(path, os.X_OK) and "bin" in path.parts}
    assert names == {"python3.11", program}
    folders = {path.name for path in files if path.is_dir()}
    assert folders & {"tests", "pip", "uv", "setuptools", "include", "man", ".cache"} == set()
    assert {path.suffix for path in files} & {".a", ".h", ".c", ".pyx", ".whl"} == set()
    assert [path for path in files if path.stat().st_mode & 0o6000] == []
    assert not list((images[program].root / "dev").iterdir())


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_module_is_compiled_already(program: str, images: dict[str, LaidOut]) -> None:
    """A root that cannot be written to would have it compiled at each start."""
    site = images[program].root / "usr/local/lib/python3.11/dist-packages"
    modules = [path for path in site.rglob("*.py") if path.stat().st_size]
    assert len(modules) > 100
    missing = [path for path in modules if not (path.parent / f"__pycache__/{path.stem}.cpython-311.pyc").exists()]
    assert missing == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_nothing_inside_tells_where_it_was_made(program: str, images: dict[str, LaidOut]) -> None:
    places = [bytes(ROOT), os.fsencode(Path.home() / ".cache"), os.fsencode(os.environ.get("HARVEST_CACHE", ROOT))]
    site = images[program].root / "usr/local"
    telling = [path for path in site.rglob("*") if path.is_file() and any(word in path.read_bytes() for word in places)]
    assert telling == []


def test_the_aggregator_checks_a_site_and_makes_a_ca_where_it_may_write(
    images: dict[str, LaidOut], tmp_path: Path
) -> None:
    aggregator = images["harvest-aggregator"]
    (tmp_path / "site.yaml").write_text("filesystems: [{name: scratch, servers: [oss1]}]\n")
    checked = aggregator.run("check", "--site", "/run/site.yaml", shared=tmp_path)
    assert checked.returncode == 0, checked.stderr
    made = aggregator.run("ca", "init", "--data", "/run/data", "--site", "example", shared=tmp_path)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "data").stat().st_uid == USER
    refused = aggregator.run("ca", "init", "--data", "/var/lib/elsewhere", "--site", "example")
    assert refused.returncode != 0
    assert "Read-only file system" in refused.stderr


def test_the_agent_reads_lustre_with_the_compiled_scanner(images: dict[str, LaidOut], tmp_path: Path) -> None:
    agent = images["harvest-agent"]
    case = ROOT / "tests/data/lustre/2.16.1-ost-hist"
    for source in sorted((case / "root").rglob("*")):
        target = tmp_path / "root" / source.relative_to(case / "root")
        target.mkdir(parents=True) if source.is_dir() else target.write_bytes(source.read_bytes())
    sampled = agent.run("sample", "--root", "/run/root", "--json", shared=tmp_path)
    assert (sampled.returncode, sampled.stderr) == (0, "")
    assert sampled.stdout.splitlines() == (case / "expected.jsonl").read_text().splitlines()
    doctor = agent.run("doctor", "--root", "/run/root", shared=tmp_path)
    assert "scanner   compiled" in doctor.stdout


def test_python_knows_the_worlds_authorities_and_times(images: dict[str, LaidOut]) -> None:
    """Sinks may be reached by HTTPS; a Pod may be given a time zone."""
    script = (
        "import ssl, zoneinfo; print(len(ssl.create_default_context().get_ca_certs()) > 100,"
        " zoneinfo.ZoneInfo('Australia/Sydney'))"
    )
    ran = images["harvest-aggregator"].run_file("/usr/bin/python3", "-I", "-c", script)
    assert (ran.stdout.strip(), ran.returncode) == ("True Australia/Sydney", 0), ran.stderr
