"""The manifests and the Ray script of docs/launching.md: their fields, and what they start with the variables that the
operators and Ray give."""
import os
import shutil
import sys
import unittest

import page
import suite
from clusters import by_ssh
from hosts import Hosts

try:
    import yaml
except ImportError:
    yaml = None

# So much of Ray as the script uses: actors are threads of one process.
RAY = """
import concurrent.futures, types
pool = concurrent.futures.ThreadPoolExecutor(16)
class Method:
    def __init__(self, method): self.method = method
    def remote(self, *args): return pool.submit(self.method, *args)
class Handle:
    def __init__(self, actor): self.actor = actor
    def __getattr__(self, name): return Method(getattr(self.actor, name))
class Class:
    def __init__(self, actor): self.actor = actor
    def options(self, scheduling_strategy): return self
    def remote(self): return Handle(self.actor())
def remote(num_cpus): return Class
def init(): pass
def get(what): return [get(one) for one in what] if isinstance(what, list) else what.result()
util = types.SimpleNamespace(get_node_ip_address=lambda: "10.77.0.1")
"""


def manifests():
    return {one["kind"]: one for block in page.blocks("yaml") for one in yaml.safe_load_all(block)}


@unittest.skipIf(yaml is None, "no yaml for Python here: tools/install-dependencies hosts")
class Manifests(suite.Case):
    def container(self, replica, name):
        """The first container of a replica: as the operators want it."""
        self.assertLessEqual(set(replica), {"replicas", "restartPolicy", "template"})
        self.assertEqual(set(replica["template"]), {"spec"})
        spec = replica["template"]["spec"]
        self.assertLessEqual(set(spec), {"containers", "volumes"})
        [container] = spec["containers"]
        self.assertLessEqual(set(container), {"name", "image", "command", "env", "volumeMounts"})
        self.assertEqual(container["name"], name)
        self.assertEqual({mount["name"] for mount in container.get("volumeMounts", [])},
                         {volume["name"] for volume in spec.get("volumes", [])})
        self.assertTrue(all(isinstance(word, str) for word in container.get("command", [])))
        return container

    def test_pytorch_job(self):
        job, secret = manifests()["PyTorchJob"], manifests()["Secret"]
        self.assertEqual((job["apiVersion"], secret["apiVersion"]), ("kubeflow.org/v1", "v1"))
        self.assertEqual(set(job["spec"]), {"pytorchReplicaSpecs"})
        replicas = job["spec"]["pytorchReplicaSpecs"]
        self.assertEqual(set(replicas), {"Master", "Worker"})
        self.assertEqual(replicas["Master"]["replicas"], 1)
        pods = [self.container(replica, "pytorch") for replica in replicas.values() for _ in range(replica["replicas"])]
        with Hosts(len(pods)) as made, suite.work_folder(made):
            jobs = []
            for rank, pod in enumerate(pods):
                self.assertIn(replicas["Worker"]["restartPolicy"], ("Never", "OnFailure", "ExitCode"))
                [variable] = pod["env"]
                source = variable["valueFrom"]["secretKeyRef"]
                self.assertEqual(source["name"], secret["metadata"]["name"])
                given = {"RANK": str(rank), "WORLD_SIZE": str(len(pods)), "MASTER_PORT": "23456", "PYTHONUNBUFFERED": "1",
                         "MASTER_ADDR": "node0", variable["name"]: secret["stringData"][source["key"]]}
                jobs.append(made.start(rank, pod["command"], given))
            for rank, (status, text) in enumerate([job.wait(suite.SECONDS) for job in jobs]):
                self.assertEqual((status, text), (0, f"rank {rank} of {len(pods)}: sum 6\n"))

    @unittest.skipIf(shutil.which("mpirun") is None, "no mpirun here")
    def test_mpi_job(self):
        job = manifests()["MPIJob"]
        self.assertEqual(job["apiVersion"], "kubeflow.org/v2beta1")
        self.assertEqual(set(job["spec"]), {"slotsPerWorker", "mpiImplementation", "mpiReplicaSpecs"})
        self.assertEqual(job["spec"]["mpiImplementation"], "OpenMPI")
        launcher, worker = (job["spec"]["mpiReplicaSpecs"][name] for name in ("Launcher", "Worker"))
        self.container(worker, "mpi")
        with Hosts(1 + worker["replicas"]) as made, by_ssh(made) as environment, suite.work_folder(made):
            with open(f"{made.folder}/hostfile", "w") as file:
                file.writelines(f"node{1 + pod} slots={job['spec']['slotsPerWorker']}\n" for pod in range(worker["replicas"]))
            environment["OMPI_MCA_orte_default_hostfile"] = f"{made.folder}/hostfile"
            status, text = made.start(0, self.container(launcher, "mpi")["command"], environment).wait(suite.SECONDS)
            self.assertEqual(status, 0, text)
            self.assertIn("rank 3 of 4: sum 10\n", text)

    def test_ray(self):
        [script] = page.blocks("python")
        with Hosts(1) as made, suite.work_folder(made):
            for name, content in (("ray.py", RAY), ("script.py", script)):
                with open(name, "w") as file:
                    file.write(content)
            status, text = made.start(0, [sys.executable, "script.py"], {"PYTHONPATH": os.getcwd()}).wait(suite.SECONDS)
            self.assertEqual(status, 0, text)
            self.assertIn("rank 2 of 3: sum 6\n", text)
            self.assertIn("[0, 0, 0]\n", text)


if __name__ == "__main__":
    suite.main()
