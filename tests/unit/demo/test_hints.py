from demo.display import hints
from harvest_cli.arguments import parser


def test_what_the_demo_says_to_type_is_understood() -> None:
    lines = [line.partition("#")[0].split() for line in hints("http://127.0.0.1:5").splitlines()]
    commands = [words[1:] for words in lines if words[:1] == [".venv/bin/harvest"]]
    assert [parser().parse_args(words).command for words in commands] == ["top", "top", "jobs", "job", "user", "doctor"]
