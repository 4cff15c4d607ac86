"""Images are made of what the project pins, whoever makes them."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from packing.layers import USER
from packing.programs import PROGRAMS, Program, members

ROOT = Path(__file__).parents[2]


def pins(name: str) -> dict[str, str]:
    text = (ROOT / f"requirements/{name}.txt").read_text()
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ]+)", text, re.MULTILINE))


def test_the_pins_of_images_are_those_that_were_tested() -> None:
    tested = pins("dev")
    for file in sorted((ROOT / "requirements").glob("*.txt")):
        assert pins(file.stem)
        assert pins(file.stem).items() <= tested.items(), f"{file.name}: run make pins"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.member)
def test_the_pins_of_an_image_have_all_that_its_members_ask_for(program: Program) -> None:
    wanted = set()
    for member in members(program.member):
        project = tomllib.loads((ROOT / member / "pyproject.toml").read_text())["project"]
        listed = [*project.get("dependencies", []), *project.get("optional-dependencies", {}).get("accounting", [])]
        wanted |= {one.lower() for one in listed if not one.startswith("harvest-")}
    if program.member != "aggregator":
        wanted = {one for one in wanted if not one.startswith("numpy")}  # the agent does without
    assert wanted
    assert wanted <= {f"{name}=={version}" for name, version in pins(program.member).items()}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.member)
def test_a_containerfile_makes_what_make_images_makes(program: Program) -> None:
    text = (ROOT / f"images/{program.member}.Containerfile").read_text()
    needed = set(members(program.member))
    assert set(re.findall(r"^COPY (\w+) \1$", text, re.MULTILINE)) == needed
    assert set(re.search(r"pip wheel .*?-w wheels (.*?) &&", text)[1].split()) == {f"./{name}" for name in needed}  # type: ignore[index]
    assert set(re.findall(r"requirements/(\w+)\.txt", text)) == {"build", program.member}
    assert len(re.findall(r"--require-hashes", text)) == len(re.findall(r"pip .*-r requirements", text))
    assert f"USER {USER}:{USER}\n" in text
    assert re.findall(r"install -d (.*)", text) == [f"-o {USER} -g {USER} /{program.state}"] * bool(program.state)
    assert json.loads(text.rpartition("ENTRYPOINT ")[2]) == [f"harvest-{program.member}"]
    assert text.rpartition("FROM ")[2].startswith("base\n")  # without what was needed to build it


def test_every_image_and_build_argument_is_documented() -> None:
    text = (ROOT / "docs/reference/images.md").read_text()
    files = sorted((ROOT / "images").glob("*.Containerfile"))
    assert {file.stem for file in files} == {program.member for program in PROGRAMS}
    for file in files:
        assert f"`localhost/harvest-{file.stem}`" in text
        for argument in re.findall(r"^ARG (\w+)", file.read_text(), re.MULTILINE):
            assert f"| `{argument}` |" in text
