"""A sweep on two machines of Ray, one of which is lost in the middle. Two raylets on the loopback stand for them."""

import json
import os

import pytest
from grids import attempts, tiny_grid

from wanderlust.errors import UserError
from wanderlust.runs.run import Run
from wanderlust.sweeps.attempt import FINISHED, LOST
from wanderlust.sweeps.plan import read_plan
from wanderlust.sweeps.sweep import carry_out

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # machines are on the loopback; Ray reads it when it is imported
ray = pytest.importorskip("ray", reason="make test-cluster installs Ray and runs these")
from ray.cluster_utils import Cluster  # noqa: E402

from wanderlust.sweeps.cluster import OnRay  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]
EPOCHS = 600


@pytest.fixture
def machines():
    words = {"node_ip_address": "127.0.0.1", "num_cpus": 1, "object_store_memory": 80 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**words, "include_dashboard": False})
    second = cluster.add_node(**words)
    cluster.wait_for_nodes()
    yield cluster, second
    ray.shutdown()
    cluster.shutdown()


def test_a_lost_machine_loses_no_run_and_nothing_is_written_twice(tmp_path, machines):
    cluster, second = machines
    plan = read_plan(tiny_grid(epochs=EPOCHS, seeds=3, retries=0, cores_per_run=1, out=str(tmp_path)))
    place = OnRay(cluster.address, plan.cores_per_run)
    assert place.size == 2
    before = {}

    def lose_one(entries, _):
        running = [entry for entry in entries if 0 < entry.standing.epoch < EPOCHS]
        if not before and len(running) == 2:
            for entry in running:
                before[entry.item.name] = json.loads((entry.item.folder / "writer.json").read_text())["pid"]
            cluster.remove_node(second, allow_graceful=False)  # its workers live on for a while

    entries = carry_out(plan, place, lose_one)
    assert {entry.item.name: (entry.state, entry.why) for entry in entries} == {
        item.name: (FINISHED, "") for item in plan.items
    }
    ends = attempts(tmp_path)
    (lost,) = [name for name, reason in ends if reason == LOST]
    assert lost in before
    assert sorted(ends) == sorted([(lost, LOST), *((item.name, FINISHED) for item in plan.items)])
    for item in plan.items:
        run = Run.open(item.folder)
        assert [row["epoch"] for row in run.metrics()] == list(range(2, EPOCHS + 1, 2))
        assert len((item.folder / "metrics.jsonl").read_text().splitlines()) == EPOCHS // 2
        assert list(run.checkpoints()) == [EPOCHS]
        assert len(run.provenance().get("resumed", [])) == (item.name == lost)
        assert not (item.folder / "writer.json").exists()


def test_an_address_where_nothing_is_is_one_line():
    with pytest.raises(UserError, match="there is no cluster to be reached"):
        OnRay("127.0.0.1:9", 1)
