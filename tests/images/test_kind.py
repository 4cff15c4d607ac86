from pathlib import Path

import pytest

from support.kind.loading import KindError, loaded

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "kind-config.yaml"


def test_kind_understands_its_configuration_and_maps_what_agents_need() -> None:
    cluster = loaded(CONFIG)
    assert cluster["Name"] == "harvest"
    (node,) = cluster["Nodes"]
    assert node["Role"] == "control-plane"
    mapped = {(port["ContainerPort"], port["HostPort"], port["Protocol"]) for port in node["ExtraPortMappings"]}
    assert mapped == {(30023, 30023, "TCP"), (30025, 30025, "TCP")}
    assert {port["ListenAddress"] for port in node["ExtraPortMappings"]} == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [("containerPorts: 30023", "containerPorts"), ("containerPort: 300230", "300230"), ("hostPort: 30023", "hostPort")],
)
def test_kinds_loader_would_tell_of_mistakes(tmp_path: Path, wrong: str, said: str) -> None:
    key = wrong.partition(":")[0].removesuffix("s")
    text = CONFIG.read_text()
    assert f"{key}: 30023," in text
    replaced = text.replace(f"{key}: 30023,", f"{wrong}, {wrong}," if key == "hostPort" else f"{wrong},")
    (tmp_path / "kind.yaml").write_text(replaced)
    with pytest.raises(KindError, match=said):
        loaded(tmp_path / "kind.yaml")
