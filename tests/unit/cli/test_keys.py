import pytest

from harvest_cli.keys import pressed_keys


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("q", ["q"]),
        ("rwq", ["r", "w", "q"]),
        ("\x1b[A", []),  # an arrow
        ("\x1b[1;5Aq", ["q"]),
        ("\x1b[15~\x1bOPw", ["w"]),  # function keys
        ("\x1bnj", ["j"]),  # alt and n
        ("é", ["é"]),
    ],
)
def test_keys_are_letters_and_sequences_mean_nothing(text: str, keys: list[str]) -> None:
    assert pressed_keys("", text) == (keys, "")


@pytest.mark.parametrize("text", ["\x1b[A", "\x1b[1;5A", "\x1bOP", "\x1b[15~"])
def test_a_sequence_may_come_in_pieces(text: str) -> None:
    for cut in range(1, len(text)):
        keys, rest = pressed_keys("", "o" + text[:cut])
        assert keys == ["o"]
        assert pressed_keys(rest, text[cut:] + "q") == (["q"], "")


def test_an_escape_that_stands_alone_swallows_nothing() -> None:
    keys, rest = pressed_keys("", "\x1b")
    assert keys == []
    assert pressed_keys(rest, "q") == (["q"], "")
