import pytest

from harvest_operator.comparing import covers, digest, marked, needs, quantity
from harvest_operator.names import APPLIED


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("1000m", "1"), ("500m", "500m"), ("0.5", "500m"), ("1.5", "1500m"), ("0", "0"), ("0.000", "0"), ("2", "2"),
        ("1000", "1k"), ("1024", "1024"), ("1000k", "1M"), ("1024Mi", "1Gi"), ("1536Mi", "1536Mi"), ("2.5Gi", "2560Mi"),
        ("0.5Ki", "512"), ("1Ki", "1Ki"), ("0.1m", "100u"), ("0.0000001m", "1n"), ("1000P", "1E"), ("1024Pi", "1Ei"),
        ("100E", "100E"),
    ],
)  # fmt: skip
def test_quantities_are_written_as_kubernetes_writes_them(written: str, canonical: str) -> None:
    assert quantity(written) == canonical


WANTED: dict[str, dict[str, object]] = {
    "metadata": {"labels": {"a": "1"}},
    "spec": {
        "replicas": 1,
        "args": ["run", "--x"],
        "containers": [{"name": "main", "image": "i:1", "ports": [{"name": "grpc", "containerPort": 1}]}],
    },
}


def test_what_others_added_is_no_difference() -> None:
    there = {
        "metadata": {"labels": {"a": "1", "b": "2"}, "uid": "x"},
        "spec": {
            "replicas": 1,
            "args": ["run", "--x"],
            "paused": False,
            "containers": [
                {"name": "added", "image": "theirs"},
                {"name": "main", "image": "i:1", "ports": [{"name": "grpc", "containerPort": 1, "protocol": "TCP"}]},
            ],
        },
        "status": {},
    }
    assert covers(there, WANTED)


@pytest.mark.parametrize(
    "spec",
    [
        {"replicas": 2},
        {"replicas": True},
        {"args": ["run"]},
        {"args": "run"},
        {"args": ["run", "--y"]},
        {"containers": []},
        {"containers": [{"name": "main", "image": "i:2", "ports": [{"name": "grpc", "containerPort": 1}]}]},
        {"containers": [{"name": "main", "image": "i:1", "ports": []}]},
    ],
)
def test_a_changed_field_is_a_difference(spec: dict[str, object]) -> None:
    assert not covers({**WANTED, "spec": {**WANTED["spec"], **spec}}, WANTED)


def test_a_field_that_is_gone_is_a_difference() -> None:
    assert not covers({"metadata": {}, "spec": WANTED["spec"]}, WANTED)
    assert not covers(None, WANTED)


def test_a_field_that_is_wanted_no_more_is_found_by_the_digest() -> None:
    before = marked({"metadata": {"name": "x"}, "spec": {"a": 1, "b": 2}})
    after = marked({"metadata": {"name": "x"}, "spec": {"a": 1}})
    assert needs(before, after)
    assert not needs(after, after)
    assert needs(None, after)
    assert after["metadata"]["annotations"][APPLIED] == digest({"metadata": {"name": "x"}, "spec": {"a": 1}})


@pytest.mark.parametrize("name", ["selector", "nodeSelector"])
def test_a_label_more_in_a_selector_is_a_difference(name: str) -> None:
    """It would choose nothing, or something else; in labels themselves it is somebody's own."""
    wanted = {name: {"a": "1"}, "labels": {"a": "1"}}
    assert covers({name: {"a": "1"}, "labels": {"a": "1", "b": "2"}}, wanted)
    assert not covers({name: {"a": "1", "b": "2"}, "labels": {"a": "1"}}, wanted)
