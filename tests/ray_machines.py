"""Ray on this machine, for tests: ports that Ray chooses, and a folder with a short name for each test, since the paths of
its sockets have at most 107 characters."""

import shutil
import tempfile
from pathlib import Path

# A machine that died is noticed after two seconds; Ray is not to speak, nor to call home.
SETTINGS = {
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "4",
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "error",
}
STORE = 80 * 2**20  # bytes of an object store; Ray's least is 75 MiB


def short_folder(monkeypatch):
    """The body of a fixture: a folder with a short name, for Ray's sockets and logs."""
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")
    monkeypatch.setenv("RAY_TMPDIR", folder)
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    yield Path(folder)
    shutil.rmtree(folder, ignore_errors=True)


def two_machines(monkeypatch):
    """The body of a fixture: a head that makes no runs, and two machines that make one at a time; what the test starts joins
    them."""
    import ray
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": STORE, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    try:
        made.machines = [made.add_node(num_cpus=1, **small) for _ in range(2)]
        monkeypatch.setenv("RAY_ADDRESS", made.address)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
