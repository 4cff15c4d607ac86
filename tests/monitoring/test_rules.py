"""Alert and recording rules, by Prometheus' own tool: each alert fires when it should, and not before."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from monitoring.alerts import CASES, Case, series
from monitoring.recorded import RECORDED, Recorded
from support.promql import labels_of, spoken, unknown
from support.rules import RULES, known_metrics, rules

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/monitoring.md").read_text()
ALERTS = {rule["alert"]: rule for rule in rules() if "alert" in rule}
RECORDS = {rule["record"]: rule for rule in rules() if "record" in rule}
_SEVERITIES = {"critical", "warning", "info"}
_COMMAND = re.compile(r"`(harvest(?:-agent|-aggregator)?) ([^`{]*)")


def promtool(*arguments: str) -> None:
    ran = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def evaluate(folder: Path, tests: list[dict[str, object]]) -> None:
    """Let promtool evaluate all rules over each test's series, which have a value a minute."""
    asked = {"rule_files": [str(path) for path in RULES], "evaluation_interval": "1m", "tests": tests}
    (folder / "tests.yaml").write_text(json.dumps(asked))
    promtool("test", "rules", str(folder / "tests.yaml"))


def over(name: str, given: dict[str, str], *expected: dict[str, object]) -> dict[str, object]:
    values = [{"series": series, "values": values} for series, values in given.items()]
    return {"name": name, "interval": "1m", "input_series": values, "promql_expr_test": expected}


def test_prometheus_understands_every_rule() -> None:
    promtool("check", "rules", "--lint-fatal", *map(str, RULES))


def firing(case: Case, minute: int, fired: tuple[dict[str, str], ...]) -> dict[str, object]:
    """Expect these alerts of a name to fire, and no others."""
    severity = ALERTS[case.alert]["labels"]["severity"]
    always = {"alertname": case.alert, "alertstate": "firing"}
    samples = [{"labels": series("ALERTS", **labels, **always, severity=severity), "value": 1} for labels in fired]
    return {"expr": series("ALERTS", **always), "eval_time": f"{minute}m", "exp_samples": samples}


def test_every_alert_fires_when_it_should_and_not_before(tmp_path: Path) -> None:
    evaluate(
        tmp_path,
        [
            over(case.name, case.series, firing(case, case.quiet, ()), firing(case, case.fires, case.fired))
            for case in CASES
        ],
    )


def test_an_alert_that_fires_too_early_or_too_late_or_for_another_is_found(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.alert == "HarvestAgentSilent")
    for wrong in (
        firing(case, case.fires, ()),
        firing(case, case.quiet, case.fired),
        firing(case, case.fires, ({**case.fired[0], "agent": "oss1"},)),
    ):
        with pytest.raises(AssertionError, match="FAILED"):
            evaluate(tmp_path, [over(case.name, case.series, wrong)])


def test_what_is_recorded_is_right(tmp_path: Path) -> None:
    def expected(recorded: Recorded) -> dict[str, object]:
        samples = [{"labels": name, "value": value} for name, value in recorded.expected.items()]
        return {"expr": recorded.record, "eval_time": f"{recorded.minute}m", "exp_samples": samples}

    evaluate(tmp_path, [over(one.record, one.series, expected(one)) for one in RECORDED])


def test_every_rule_is_tried() -> None:
    assert {case.alert for case in CASES} == set(ALERTS)
    assert {recorded.record for recorded in RECORDED} == set(RECORDS)


def test_rules_speak_only_of_metrics_and_labels_that_exist() -> None:
    known = known_metrics()
    for rule in rules():
        named = frozenset(re.findall(r"\$labels\.(\w+)", json.dumps(rule.get("annotations", {}))))
        assert unknown(rule["expr"], known, also=named) == [], rule


def test_a_rule_that_speaks_of_what_is_not_there_is_found() -> None:
    known = known_metrics()
    assert unknown('sum by (agents) (rate(harvest_refusal_total{why="x"}[5m]))', known) == [
        "harvest_refusal_total",
        "agents",
    ]
    assert unknown('harvest_agent_connected{server="x"}', known) == ["harvest_agent_connected{server}"]
    assert unknown("harvest_ready == 0", known, also=frozenset({"agent"})) == ["agent"]
    assert labels_of(spoken('label_replace(harvest_ready, "a", "$1", "job", "(.*)")'), known) == {
        "a",
        "job",
        "instance",
    }


def test_every_alert_says_whom_it_concerns_and_what_to_do() -> None:
    for name, rule in ALERTS.items():
        assert rule["labels"]["severity"] in _SEVERITIES, name
        assert set(rule["annotations"]) == {"summary", "description"}, name
        assert rule["annotations"]["description"].startswith("For "), name
        assert "`" in rule["annotations"]["description"], name


def test_commands_that_alerts_name_are_there() -> None:
    named = {
        (program, words.split()[0], option)
        for rule in ALERTS.values()
        for program, words in _COMMAND.findall(rule["annotations"]["description"])
        for option in ("", *re.findall(r"--[a-z-]+", words))
    }
    assert len(named) > 5
    for program, command, option in sorted(named):
        page = {"harvest": "cli", "harvest-agent": "agent", "harvest-aggregator": "aggregator"}[program]
        text = (ROOT / f"docs/reference/{page}.md").read_text()
        assert re.search(rf"`{command}\b", text), (program, command)
        assert f"`{option}" in text, (program, option)


def test_every_rule_is_on_the_page() -> None:
    rows = re.findall(r"^\| `(Harvest\w+)` \| (\w+) \| ([^|]*) \| ", PAGE, re.MULTILINE)
    assert rows == [(name, rule["labels"]["severity"], rule.get("for", "at once")) for name, rule in ALERTS.items()]
    assert re.findall(r"^\| `(\w+:\w+:\w+)` \|", PAGE, re.MULTILINE) == list(RECORDS)
