import subprocess

import pytest

from harvest_cli.arguments import ASKING, COMMANDS
from harvest_cli.completion import SCRIPTS, bash, fish, zsh


def completed(*words: str) -> set[str]:
    """Ask bash itself what it would complete the last word to."""
    quoted = " ".join(f"'{word}'" for word in words)
    script = (
        f"{bash()}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _harvest; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    ran = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return set(ran.stdout.split())


def test_bash_completes_commands_options_and_values() -> None:
    assert completed("harvest", "") == {*COMMANDS, "--help"}
    assert completed("harvest", "jo") == {"job", "jobs"}
    assert completed("harvest", "top", "--s") == {"--sort", "--server", "--server-name"}
    assert completed("harvest", "top", "--sort", "") == {"read", "write", "ops", "metadata"}
    assert completed("harvest", "jobs", "--sort", "rates.m") == {"rates.mdt_iops"}
    assert completed("harvest", "completion", "") == {"bash", "zsh", "fish", "--help"}
    assert completed("harvest", "top", "--fs", "") == set()


@pytest.mark.parametrize("shell", SCRIPTS)
def test_every_command_and_option_is_in_every_script(shell: str) -> None:
    text = SCRIPTS[shell]()
    for name, command in COMMANDS.items():
        assert name in text
        for option in (*command.options, *ASKING):
            if option.name.startswith("--"):
                assert option.name.removeprefix("--" if shell == "fish" else "") in text
            for choice in option.choices:
                assert choice in text


def test_quotes_in_descriptions_break_no_script() -> None:
    for text in (zsh(), fish()):
        assert "aggregator'\\''s" in text
