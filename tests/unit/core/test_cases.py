"""Every folder of tests/data/lustre: text written from the format rules, and what must be read from it.

A case holds ``root/`` (a server's tree), ``lctl.txt`` (a dump) or ``stats`` (one file), the rows to expect in
``expected.jsonl``, and in ``rules.txt`` the rules of lustre-formats that it shows. ``settings.json``, where there
is one, says what else must be found in the tree.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from harvest_agent.sampling import sample_lctl, sample_tree
from harvest_agent.tree import Tree, read_number
from harvest_core.lustre.counters import printable
from harvest_core.lustre.stats import parse_stats

CASES = Path(__file__).parents[2] / "data" / "lustre"
FOLDERS = sorted(path for path in CASES.iterdir() if path.is_dir())
INPUTS = {"root", "lctl.txt", "stats"}
Row = dict[str, Any]

RULES = """
§1.1 2.3-2.7.60
§1.1 2.7.61-2.14.0
§1.1 2.13.55-2.14.50
§1.1 2.14.51-2.14.55
§1.1 2.14.56-2.15.1
§1.1 2.15.2-2.15.8
§1.1 2.15.51-2.15.52
§1.1 2.15.53-2.15.54
§1.1 2.15.55-2.16.50
§1.1 enable_stats_header=0
§1.1 2.16.51-2.17
§1.1 2.16.51-2.17 no job
§1.1 DDN until ddn145
§1.1 DDN from ddn162
§1.1 zero samples are printed
§1.1 order of ops
§1.1 minimum widths
§1.1 unknown ops are kept
§1.2 31 bytes
§1.2 rule A
§1.2 rule B
§1.2 rule B leading @
§1.2 quote and backslash escaped
§1.2 Latin-1 letters raw
§1.2 bare ids untyped
§1.2 empty id
§1.2 old forms
§1.3 OST 2.3-2.5.51
§1.3 OST 2.5.52-2.13
§1.3 OST 2.14.0
§1.3 read and write by unit
§1.3 MDT 2.3-2.10
§1.3 MDT 2.11-2.13
§1.3 MDT 2.14
§1.3 MDT 2.15
§1.3 MDT 2.16
§1.3 MDT 2.17
§1.3 MDT master 2.17.57
§1.3 MDT ddn164
§1.3 MDT ddn259
§1.3 bytes on MDTs
§1.4 buckets
§1.4 empty hist
§2.7 negative and saturated sums
§3 only counters that are not zero
§3 snapshot_time usecs unpadded
§3 snapshot_time nsecs
§3 start_time and elapsed_time
§3 2.15.0 since boot
§3 name column 35
§3 units
§3 usec=usecs, sec=secs, regs=reqs
§3 generic OBD counters
§3 duplicate statfs
§3 md_stats 2.12
§3 MDT export ops
§3 OST export ops
§3 ldlm_stats
§3 NID tcp
§3 NID o2ib
§3 NID network number
§3 NID lo
§3 NID IPv6
§3 NID kfi and gni
§3 NID unknown LND
§3 NID in lctl names
§3 nodemap
§3 brw_stats
§3 llite 2.6
§3 llite 2.12
§3 llite 2.14
§3 llite 2.15
§3 llite 2.16
§3 llite 2.17
§3 osc and mdc
§3 other layouts
§3.1 same line
§3.1 next line
§3.1 long value on next line
§3.1 empty job_stats inline
§3.1 empty file before 2.17
§3.1 empty file from 2.17
§3.1 -n
§3.1 not supported
§3.2 2.9
§3.2 2.10-2.11
§3.2 2.12
§3.2 2.13-2.14
§3.2 2.15-2.16
§3.2 2.17
§7.1
§7.2
§7.3
§7.8
§7.9
§7.10
§7.11
§7.12
§7.13
§7.14
§7.17
"""

OUT_OF_SCOPE = {
    "§1.2 writing an id": "Harvest never writes to Lustre",
    "§7.4": "which clock rates use: the sweep's, not the parser's",
    "§7.5": "what absence means: how lives are told apart (DESIGN §5)",
    "§7.6": "what reading does to the server: the read period, not the text",
    "§7.7": "what an interval of 0 or 1 s means: how lives are told apart (DESIGN §5)",
    "§7.15": "from Slurm's ids to Lustre's: the join with Slurm",
    "§7.16": "one target on two hosts: how lives are told apart (DESIGN §5)",
}


def json_lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def rules_of(folder: Path) -> list[str]:
    return (folder / "rules.txt").read_text("utf-8").splitlines()


def stats_rows(text: bytes) -> list[Row]:
    parsed = parse_stats(text)
    rows: list[Row] = [
        {
            "name": counter.name,
            "unit": counter.unit,
            "samples": counter.samples,
            "min": counter.minimum,
            "max": counter.maximum,
            "sum": counter.sum,
            "sumsq": counter.sumsq,
        }
        for counter in parsed.counters
    ]
    unread = [printable(line) for line in parsed.unread]
    return [*rows, {"snapshot_time": parsed.snapshot_time, "start_time": parsed.start_time, "unread": unread}]


def rows_of(folder: Path) -> list[Row]:
    if (folder / "root").is_dir():
        return list(sample_tree(Tree(str(folder / "root"))))
    if (folder / "lctl.txt").is_file():
        return list(sample_lctl((folder / "lctl.txt").read_bytes()))
    return stats_rows((folder / "stats").read_bytes())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_case_gives_exactly_the_rows_that_it_expects(folder: Path) -> None:
    assert len(INPUTS & {path.name for path in folder.iterdir()}) == 1
    assert rows_of(folder) == json_lines(folder / "expected.jsonl")


@pytest.mark.parametrize(
    "folder", [folder for folder in FOLDERS if (folder / "settings.json").exists()], ids=lambda folder: folder.name
)
def test_settings_are_found_where_the_version_keeps_them(folder: Path) -> None:
    expected = json.loads((folder / "settings.json").read_bytes())
    tree = Tree(str(folder / "root"))
    found: Row = {name: tree.setting(name) for name in ("jobid_var", "jobid_name")}
    found["targets"] = {
        target.name: {name: read_number(target.file(name)) for name in ("instance", "job_cleanup_interval")}
        for target in tree.targets()
    }
    assert found == expected


def test_every_rule_has_a_case_and_no_case_names_an_unknown_rule() -> None:
    rules = RULES.split("\n")[1:-1]
    assert len(rules) == len(set(rules))
    covered = {rule for folder in FOLDERS for rule in rules_of(folder)}
    assert sorted(set(rules) - covered) == []
    assert sorted(covered - set(rules)) == []
    assert not covered & OUT_OF_SCOPE.keys()
    assert {f"§7.{trap}" for trap in range(1, 18)} <= set(rules) | OUT_OF_SCOPE.keys()
