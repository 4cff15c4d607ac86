"""Completion for shells, made of the table of commands."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from harvest_cli.arguments import ASKING, COMMANDS, Command, Option


def _options(command: Command) -> tuple[Option, ...]:
    return (*command.options, *(ASKING if command.asks else ()))


def _flags(command: Command) -> list[Option]:
    return [option for option in _options(command) if option.name.startswith("--")]


def _choices(command: Command) -> list[Option]:
    return [option for option in _options(command) if option.choices]


def bash() -> str:
    """Return a script for bash."""
    lines = []
    for name, command in COMMANDS.items():
        values = [f"{name}:{option.name}) words='{' '.join(option.choices)}' ;;" for option in _choices(command)]
        files = [f"{name}:{option.name}" for option in _flags(command) if option.is_file]
        others = [f"{name}:{option.name}" for option in _flags(command) if _takes_text(option)]
        lines += values
        lines += [f'{"|".join(files)}) COMPREPLY=($(compgen -f -- "$word")); return ;;'] if files else []
        lines += [f"{'|'.join(others)}) return ;;"] if others else []
    for name, command in COMMANDS.items():
        words = [option.name for option in _flags(command)]
        words += [
            choice for option in _choices(command) if not option.name.startswith("--") for choice in option.choices
        ]
        lines.append(f"{name}:*) words='{' '.join([*words, '--help'])}' ;;")
    cases = "\n".join(f"    {line}" for line in lines)
    return f"""\
_harvest() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}} words=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{" ".join(COMMANDS)} --help' -- "$word"))
    return
  fi
  case "$command:$before" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -F _harvest harvest
"""


def _takes_text(option: Option) -> bool:
    return not (option.is_flag or option.is_file or option.choices)


def zsh() -> str:
    """Return a script for zsh."""
    described = " ".join(_quoted(f"{name}:{command.help}") for name, command in COMMANDS.items())
    cases = "\n".join(
        f"    {name}) _arguments -s {' '.join(_zsh_options(_options(command)))} ;;"
        for name, command in COMMANDS.items()
    )
    return f"""\
#compdef harvest
_harvest() {{
  local -a commands=({described})
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{cases}
  esac
}}
if [ "$funcstack[1]" = _harvest ]; then _harvest "$@"; else compdef _harvest harvest; fi
"""


def _zsh_options(options: Iterable[Option]) -> Iterable[str]:
    for option in options:
        values = f"({' '.join(option.choices)})" if option.choices else "_files" if option.is_file else " "
        said = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
        if not option.name.startswith("--"):
            yield _quoted(f"{'::' if option.is_optional else ':'}{option.name}:{values}")
            continue
        times = "*" if option.is_repeated else ""
        yield _quoted(
            f"{times}{option.name}[{said}]" + ("" if option.is_flag else f":{option.metavar or 'one'}:{values}")
        )


def fish() -> str:
    """Return a script for fish."""
    lines = ["complete -c harvest -f"]
    for name, command in COMMANDS.items():
        lines.append(f"complete -c harvest -n __fish_use_subcommand -a {name} -d {_quoted(command.help)}")
        seen = f"complete -c harvest -n '__fish_seen_subcommand_from {name}'"
        for option in _options(command):
            values = f" -a {_quoted(' '.join(option.choices))}" if option.choices else ""
            if not option.name.startswith("--"):
                lines += [seen + values] if values else []
                continue
            takes = "" if option.is_flag else " -r -F" if option.is_file else " -x"
            lines.append(f"{seen} -l {option.name[2:]}{takes}{values} -d {_quoted(option.help)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"


SCRIPTS: Final[Mapping[str, Callable[[], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}
