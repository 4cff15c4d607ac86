"""The cluster that tests run in."""

from support.kubernetes.api import Api
from support.kubernetes.clusters import VARIABLE, chosen
from support.kubernetes.control_plane import ControlPlane


def test_a_cluster_that_is_named_comes_first_then_kind_then_our_own() -> None:
    assert chosen({VARIABLE: "/a/kubeconfig"}, lambda *_: True) == "given"
    assert chosen({VARIABLE: ""}, lambda *_: True) == "kind"
    assert chosen({}, lambda program, *_: program == "kind") == "local", "kind without a Docker that answers"
    assert chosen({}, lambda *_: False) == "local"


def test_what_was_written_outlives_the_api_server_and_is_in_the_audit_log(control_plane: ControlPlane) -> None:
    api = Api(control_plane.admin)
    name = "outlives"
    path = f"/api/v1/namespaces/default/configmaps/{name}"
    api.apply(path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
    control_plane.kill_one("kube-apiserver")
    assert not api.ready()
    control_plane.start_apiserver()
    assert api.get(path)["data"] == {"a": "b"}
    api.delete(path)
    written = [
        (one["verb"], one["user"]["username"]) for one in control_plane.audited(path) if path in one["requestURI"]
    ]
    assert written == [("patch", "admin"), ("get", "admin"), ("delete", "admin")]
