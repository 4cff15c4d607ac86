"""What the doctor says about an agent's certificate: whose it is, how long it is valid, and who renews it."""

from datetime import datetime

from harvest_agent.config import Config, ConfigError
from harvest_agent.credentials import read_credentials
from harvest_agent.doctor import Problem


def examine_identity(config: Config, now: datetime) -> tuple[str, list[Problem]]:
    """Read the files of every uplink, each once; return the report's lines and what is wrong."""
    lines, problems = [], []
    if config.join is None:
        renewed, mend = "not renewed by the agent", "issue another, or let the server join: `harvest-agent join --help`"
    else:
        renewed = f"renewed at {config.join.address}"
        mend = "the agent's log says why it is not renewed; if it is too late: `harvest-agent join --force`"
    for uplink in {(one.ca, one.cert, one.key): one for one in config.uplinks}.values():
        try:
            found = read_credentials(uplink)
        except ConfigError as error:
            problems.append(Problem(str(error), "let the server join: `harvest-agent join --help`"))
            continue
        lines.append(f"identity  {found.name} of site {found.site}; its certificate {found.left(now)}, {renewed}")
        if problem := found.problem(now):
            problems.append(Problem(problem.partition(":")[0], mend))
    return "\n".join(lines), problems
