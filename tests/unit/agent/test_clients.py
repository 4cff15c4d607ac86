"""How clients' counters are followed from pass to pass."""

from harvest_core.facts import Facts
from unit.agent.client_files import EPOCH, NSECS, Followed, Ost

A, B, C = "10.0.0.1@tcp", "10.0.0.2@tcp", "10.0.0.3@tcp"


def moved(facts: Facts) -> list[int]:
    return [int(slot) for slot in facts.moved.slot]


def test_the_first_pass_tells_every_client_also_one_that_has_done_nothing() -> None:
    followed = Followed()
    followed.ost.show(A, write_bytes=5)
    followed.ost.show(B)

    facts = followed.passed()

    assert [name[1:] for name in facts.names] == [(A.encode(), 0, 0), (B.encode(), 0, 0)]
    assert (moved(facts), list(facts.moved.rows), list(facts.moved.sum)) == ([0, 1], [1, 0], [5])
    assert (facts.complete, facts.order_is_full, list(facts.order), list(facts.gone)) == (True, True, [0, 1], [])
    assert facts.cost.records == 2


def test_only_what_was_counted_moves_a_client_not_the_time_of_the_read_nor_a_ping() -> None:
    followed = Followed()
    followed.ost.show(A, write_bytes=5, ping=1)
    followed.ost.show(B, write_bytes=1)
    followed.passed()
    followed.ost.show(A, write_bytes=5, ping=2)
    followed.ost.show(B, write_bytes=2)

    facts = followed.passed()

    assert (moved(facts), list(facts.moved.sum)) == ([1], [2])


def test_a_counter_that_is_zero_is_left_out() -> None:
    followed = Followed()
    followed.ost.show(A, write_bytes=0, read_bytes=3)
    followed.ost.show(B, write_bytes=2)

    facts = followed.passed()

    assert (list(facts.moved.rows), list(facts.moved.samples), list(facts.moved.extreme_row)) == ([1, 1], [3, 2], [])


def test_another_start_is_another_record() -> None:
    followed = Followed()
    followed.ost.show(A, start=1, write_bytes=5)
    followed.account_for()
    followed.ost.show(A, start=9, write_bytes=7)

    facts = followed.passed()

    assert (moved(facts), list(facts.gone)) == ([1], [0])
    assert facts.names == [(1, A.encode(), (EPOCH + 9) * NSECS, 0)]
    followed.account_for(facts)
    assert followed.total(A) == 5 + 7


def test_a_directory_that_vanished_and_returned_is_another_life() -> None:
    followed = Followed()
    followed.ost.show(A, write_bytes=5)
    followed.account_for()
    followed.ost.vanish(A)
    gone = followed.passed()
    followed.account_for(gone)
    followed.ost.show(A, write_bytes=6)

    work = followed.account_for()

    assert list(gone.gone) == [0]
    assert (followed.total(A), work.ambiguities) == (5 + 6, [])


def test_a_file_that_is_there_and_cannot_be_read_is_no_news() -> None:
    followed = Followed()
    followed.ost.show(A, write_bytes=5)
    followed.account_for()
    followed.ost.show(A, write_bytes=6)
    followed.ost.unreadable[f"exports/{A}/stats"] = "Too many open files"

    facts = followed.passed()

    assert (moved(facts), list(facts.gone)) == ([], [])
    followed.account_for(facts)
    followed.ost.unreadable.clear()
    followed.account_for()
    assert followed.total(A) == 6


def test_a_folder_that_is_there_and_cannot_be_listed_ends_nobodys_life() -> None:
    followed = Followed()
    followed.ost.show(A, write_bytes=5)
    followed.account_for()
    followed.ost.show(A, write_bytes=6)
    followed.ost.unreadable["exports"] = "Cannot allocate memory"
    followed.clients.begin(followed.ost.files)

    assert (followed.clients.left(1.0), followed.clients.is_done) == (0, False)
    followed.ost.unreadable.clear()
    followed.clients.read_some(followed.clients.left(1.0))
    assert followed.clients.is_done
    followed.account_for(followed.told())
    assert followed.total(A) == 6


def test_a_start_that_is_told_for_the_first_time_is_no_other_life() -> None:
    """An admin may switch enable_stats_header at any time: it is about the files of clients, too."""
    followed = Followed()
    followed.ost.show(A, write_bytes=5)
    followed.account_for()
    followed.ost.show(A, start=1, write_bytes=7)
    work = followed.account_for()

    assert (followed.total(A), list(work.sum), list(work.window_seconds)) == (7, [2], [60])
    followed.ost.show(A, write_bytes=8)
    followed.account_for()
    assert followed.total(A) == 8


def test_a_start_that_is_told_for_the_first_time_and_is_younger_than_the_last_value_is_another_life() -> None:
    followed = Followed()
    followed.ost.show(A, write_bytes=5)
    followed.account_for()
    followed.ost.show(A, start=61, write_bytes=7)
    followed.account_for()

    assert followed.total(A) == 5 + 7


def test_a_client_is_live_while_somebody_is_connected_or_it_moves() -> None:
    followed = Followed()
    followed.ost.show(A, uuid="c1", write_bytes=1)
    followed.ost.show(B, uuid="", write_bytes=1)
    followed.account_for()
    assert (followed.marks(A), followed.marks(B)) == ((True, False), (False, False))

    followed.ost.show(A, uuid="", write_bytes=1)
    followed.ost.show(B, uuid="", write_bytes=2)
    followed.ost.reads.clear()
    followed.account_for()

    assert (followed.marks(A), followed.marks(B)) == ((False, False), (True, False))
    assert f"exports/{B}/uuid" not in followed.ost.reads  # that it moved says enough


def test_marks_are_told_only_where_they_changed() -> None:
    followed = Followed()
    followed.ost.show(A, write_bytes=1)
    followed.ost.show(B, write_bytes=1)
    followed.passed()
    followed.ost.show(B, uuid="", write_bytes=1)

    facts = followed.passed()

    assert facts.clients is not None
    assert (list(facts.clients.slot), list(facts.clients.live)) == ([1], [0])


def test_a_mark_names_its_client_again_in_another_segment() -> None:
    """Or an aggregator that has only that segment would not know whose it is."""
    followed = Followed()
    followed.ost.show(A, write_bytes=1)
    followed.passed()
    followed.ost.show(A, uuid="", write_bytes=1)
    followed.clients.differences.begin_segment()

    assert followed.passed().again == [(0, A.encode(), 0, 0)]


def test_servers_are_known_by_their_connections_and_stay_servers_without_one() -> None:
    followed = Followed()
    followed.ost.show(A, uuid="fs-MDT0000-mdtlov_UUID")
    followed.ost.show(B, uuid="fs-MDT0000-mdtlov_UUID\nc1")
    followed.ost.show("0@lo", uuid="")
    followed.account_for()
    assert (followed.marks(A)[1], followed.marks(B)[1], followed.marks("0@lo")[1]) == (True, False, True)

    followed.ost.show(A, uuid="")
    followed.account_for()

    assert followed.marks(A) == (False, True)


def test_nobody_is_read_while_the_target_counts_nothing_but_at_most_five_times_in_a_row() -> None:
    followed = Followed()
    followed.ost.show(A, write_bytes=1)
    followed.passed()
    read_in = []
    for _ in range(12):
        followed.ost.reads.clear()
        facts = followed.passed()
        read_in.append(bool(followed.ost.reads))
        assert (moved(facts), list(facts.gone)) == ([], [])

    assert read_in == [*[False] * 5, True, *[False] * 5, True]


def test_whoever_the_target_counts_for_is_read() -> None:
    followed = Followed()
    followed.ost.show(A, write_bytes=1)
    followed.passed()
    followed.passed()
    followed.ost.show(A, write_bytes=2)

    assert list(followed.passed().moved.sum) == [2]


def test_a_remount_between_two_looks_takes_back_only_what_was_read_since() -> None:
    followed = Followed()
    for nid in (A, B, C):
        followed.ost.show(nid, write_bytes=5)
    followed.account_for()
    for nid in (A, B, C):
        followed.ost.show(nid, write_bytes=7)
    followed.clients.begin(followed.ost.files)
    followed.clients.left(1.0)
    followed.clients.read_some(1)
    followed.ost.instance = 2
    for nid in (A, B, C):
        followed.ost.show(nid, write_bytes=1)
    followed.clients.read_some(2)

    facts = followed.told(is_over=True)

    assert (moved(facts), list(facts.moved.sum), facts.complete, list(facts.gone)) == ([0], [7], False, [])
    assert facts.mount.instance == 1
    work = followed.account_for(facts)
    assert (followed.total(A), followed.total(B), work.ambiguities, work.resets) == (7, 5, [], [])


def test_a_first_pass_that_was_cut_short_says_nothing_of_those_it_did_not_reach() -> None:
    followed = Followed()
    followed.ost.show(A, write_bytes=5)
    followed.ost.show(B, write_bytes=5)
    followed.account_for()
    followed.restart()
    followed.ost.show(A, write_bytes=6)
    followed.clients.begin(followed.ost.files)
    followed.clients.left(1.0)
    followed.clients.read_some(1)
    cut = followed.account_for(followed.told(is_over=True))
    followed.restart()
    followed.ost.show(B, write_bytes=8)

    work = followed.account_for()

    assert (cut.ambiguities, work.ambiguities, work.resets) == ([], [], [])
    assert (followed.total(A), followed.total(B)) == (6, 8)


def test_what_could_not_be_read_is_left_out_and_counted() -> None:
    followed = Followed(Ost())
    followed.ost.show(A, write_bytes=5, read_bytes=3)
    followed.account_for()
    followed.ost.own += 1
    followed.ost.print(
        A,
        "write_bytes 6 samples [bytes] 1 1 -6\ngar bage\nread_bytes 3 samples [bytes] 1 1 3\n",
    )

    facts = followed.passed()
    work = followed.account_for(facts)

    assert (facts.unread_lines, list(facts.moved.partial)) == (2, [0])
    assert (followed.total(A), work.resets, work.ambiguities) == (5, [], [])


def test_counters_that_stand_there_twice_add_up() -> None:
    followed = Followed()
    followed.ost.print(A, "statfs 2 samples [reqs]\nstatfs 3 samples [reqs]\n")

    facts = followed.passed()

    assert (list(facts.moved.samples), facts.counters) == ([5], [(0, "statfs", "reqs")])


def test_a_folder_may_be_called_anything() -> None:
    odd = "\udcff\x1b@tcp"
    followed = Followed()
    followed.ost.show(odd, write_bytes=5)
    followed.account_for()
    followed.ost.vanish(odd)

    assert list(followed.passed().gone) == [0]
    assert [*followed.state.jobs] == [b"\xff\x1b@tcp"]
