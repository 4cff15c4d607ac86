"""The agent's configuration: what is not known or cannot be meant is refused, with what to write instead."""

import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from harvest_agent.config import (
    AgentSettings,
    Config,
    ConfigError,
    JoinSettings,
    LustreSettings,
    SlurmSettings,
    SpoolSettings,
    UplinkSettings,
)
from harvest_agent.notify import Notifier
from harvest_agent.running import agent_name

UPLINK = {
    "address": "harvest.example:8023",
    "server_name": "main.example.harvest",
    "ca": "/etc/harvest/ca.crt",
    "cert": "/etc/harvest/tls.crt",
    "key": "/etc/harvest/tls.key",
}
ROOT = Path(__file__).parents[3]
SECTIONS = {
    "[agent]": AgentSettings,
    "[lustre]": LustreSettings,
    "[[uplink]]": UplinkSettings,
    "[spool]": SpoolSettings,
    "[slurm]": SlurmSettings,
    "[join]": JoinSettings,
}


def test_uplinks_are_all_that_must_be_said() -> None:
    config = Config.parse({"uplink": [UPLINK]})

    assert config.uplinks == (UplinkSettings(**UPLINK),)
    assert (config.lustre.root, config.lustre.filesystems, config.agent.duty_limit) == ("/", (), 0.1)
    assert (config.spool.directory, config.spool.max_bytes) == ("/var/lib/harvest-agent/spool", 1 << 30)


def test_slurm_is_asked_only_where_there_is_a_section_for_it() -> None:
    assert Config.parse({"uplink": [UPLINK]}).slurm is None
    assert Config.parse({"uplink": [UPLINK], "slurm": {}}).slurm == SlurmSettings()
    remote: dict[str, Any] = {
        "source": "slurmrestd",
        "address": "slurm1:6820",
        "token_file": "/etc/harvest/token",
        "limit_seconds": 5,
    }
    assert Config.parse({"uplink": [UPLINK], "slurm": remote}).slurm == SlurmSettings(**remote)


def test_everything_can_be_said() -> None:
    config = Config.parse(
        {
            "agent": {"name": "oss1", "duty_limit": 1},
            "lustre": {"root": "/copy", "filesystems": ["home", "scratch"]},
            "uplink": [UPLINK, UPLINK | {"address": "[fd00::1]:8023"}],
            "spool": {"directory": "/spool", "max_bytes": 1 << 20},
        }
    )
    assert (config.agent.name, config.agent.duty_limit) == ("oss1", 1.0)
    assert config.lustre.filesystems == ("home", "scratch")
    assert [uplink.address for uplink in config.uplinks] == ["harvest.example:8023", "[fd00::1]:8023"]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, r"at least one \[\[uplink\]\] is needed"),
        ({"uplink": []}, "at least one"),
        ({"uplink": UPLINK}, "at least one"),
        ({"uplink": [1]}, r"\[\[uplink\]\] must be a section"),
        ({"uplinks": [UPLINK]}, "unknown section 'uplinks'; known are agent, lustre, uplink, spool, slurm"),
        ({"uplink": [UPLINK], "slurm": {"squeu": "x"}}, r"\[slurm\]: unknown key 'squeu'; known are source, period"),
        ({"uplink": [UPLINK], "slurm": {"source": "sinfo"}}, "known are command, pyslurm, slurmrestd"),
        ({"uplink": [UPLINK], "slurm": {"squeue": "squeue"}}, r"\[slurm\] squeue must be an absolute path"),
        ({"uplink": [UPLINK], "slurm": {"period_seconds": 0}}, "period_seconds must be from 1 to 3600"),
        ({"uplink": [UPLINK], "slurm": {"limit_seconds": 0}}, "limit_seconds must be above 0"),
        ({"uplink": [UPLINK], "slurm": {"source": "pyslurm"}}, "interpreter is missing"),
        ({"uplink": [UPLINK], "slurm": {"source": "slurmrestd"}}, "neither unix:/PATH nor HOST:PORT"),
        ({"uplink": [UPLINK], "slurm": {"source": "slurmrestd", "address": "unix:sock"}}, "must be an absolute path"),
        ({"uplink": [UPLINK], "slurm": {"api_version": "40"}}, "is not as v0.0.40"),
        ({"uplink": [UPLINK], "spool": {"size": 1}}, r"\[spool\]: unknown key 'size'; known are directory, max_bytes"),
        ({"uplink": [UPLINK | {"adress": ""}]}, "unknown key 'adress'"),
        ({"uplink": [{"address": "h:1"}]}, "server_name is missing"),
        ({"uplink": [UPLINK | {"address": "harvest"}]}, "is not HOST:PORT"),
        ({"uplink": [UPLINK | {"address": "harvest:0"}]}, "is not HOST:PORT"),
        ({"uplink": [UPLINK | {"address": "dns:///harvest:1"}]}, "is not HOST:PORT"),
        ({"uplink": [UPLINK | {"server_name": "harvest.example"}]}, "<aggregator>.<site>.harvest"),
        ({"uplink": [UPLINK | {"key": "tls.key"}]}, "key must be an absolute path"),
        ({"uplink": [UPLINK, UPLINK]}, "are the same"),
        ({"uplink": [UPLINK], "spool": {"max_bytes": "1G"}}, r"\[spool\] max_bytes must be a whole number"),
        ({"uplink": [UPLINK], "spool": {"max_bytes": True}}, "must be a whole number"),
        ({"uplink": [UPLINK], "spool": {"max_bytes": 5}}, "at least 1048576"),
        ({"uplink": [UPLINK], "lustre": {"filesystems": "home"}}, "must be a list of texts"),
        ({"uplink": [UPLINK], "lustre": {"root": 1}}, "must be text"),
        ({"uplink": [UPLINK], "agent": {"duty_limit": 0}}, "duty_limit must be above 0"),
        ({"uplink": [UPLINK], "agent": {"duty_limit": "much"}}, "must be a number"),
    ],
)
def test_what_cannot_be_meant_is_refused(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.parse(raw)


def test_a_file_that_is_not_there_or_not_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*agent.toml: No such file"):
        Config.load(str(tmp_path / "agent.toml"))
    (tmp_path / "agent.toml").write_text("[uplink")
    with pytest.raises(ConfigError, match=r"agent.toml is not TOML"):
        Config.load(str(tmp_path / "agent.toml"))
    (tmp_path / "agent.toml").write_text("[spol]\n")
    with pytest.raises(ConfigError, match=r"agent.toml: unknown section 'spol'"):
        Config.load(str(tmp_path / "agent.toml"))


def test_the_name_is_that_of_all_certificates() -> None:
    config = Config.parse({"uplink": [UPLINK]})
    assert agent_name(config, {"oss1"}) == "oss1"
    with pytest.raises(ConfigError, match="different servers: oss1, oss2"):
        agent_name(config, {"oss2", "oss1"})
    with pytest.raises(ConfigError, match="name is oss7, and the certificate is that of oss1"):
        agent_name(Config.parse({"uplink": [UPLINK], "agent": {"name": "oss7"}}), {"oss1"})


def test_the_page_lists_every_key_with_its_default() -> None:
    page = (ROOT / "docs/reference/agent.md").read_text()
    listed = re.findall(r"^\| `(\[+\w+\]+)` \| `(\w+)` \| [^|]+ \| (.*?) \|$", page, re.MULTILINE)
    wanted = []
    for section, kind in SECTIONS.items():
        for field in fields(kind):
            default = "" if field.default is MISSING else f"`{_as_toml(field.default)}`"
            wanted.append((section, field.name, default))
    assert listed == wanted


def _as_toml(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return "[]" if value == () else str(value)


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "often"}, None),
    ],
)
def test_the_watchdog_is_ours_if_systemd_says_so(environment: dict[str, str], seconds: float | None) -> None:
    assert Notifier.of(environment, pid=7).watchdog_seconds == seconds
