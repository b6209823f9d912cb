"""A temporary Slurm on this machine: two nodes with two fake GPUs each, without systemd and accounting."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import psutil

from tests.waiting import until

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue")
CONF = """
ClusterName=lnrepro
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CommunicationParameters=NoAddrCache
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmctldLogFile={folder}/run/slurmctld.log
StateSaveLocation={folder}/state
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmdLogFile={folder}/run/slurmd-%n.log
SlurmdSpoolDir={folder}/spool-%n
SlurmdTimeout=8
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0
ReturnToService=2
JobRequeue=1
KillWait=20
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
GresTypes=gpu
NodeName=node1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={node1} CPUs=2 RealMemory=4000 Gres=gpu:2
NodeName=node2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={node2} CPUs=2 RealMemory=4000 Gres=gpu:2
PartitionName=gpu    Nodes=node1,node2 Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=30
PartitionName=urgent Nodes=node1,node2 MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""
GRES = """
AutoDetect=off
NodeName=node[1-2] Name=gpu File={folder}/dev/nvidia[0-1]
"""


def missing() -> str | None:
    """Return why no Slurm can be started here, or None."""
    if lacking := [name for name in NEEDED if not shutil.which(name, path=_path())]:
        return f"no {', '.join(lacking)} (apt-get install slurm-wlm munge)"
    return None if os.getuid() == 0 else "starting a Slurm needs root"


class Cluster:
    """A Slurm in a folder, up while the ``with`` block lasts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PATH": _path(), "SLURM_CONF": str(folder / "slurm.conf")}
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Cluster":
        for name in ("run", "state", "dev", "spool-node1", "spool-node2"):
            (self.folder / name).mkdir(parents=True)
        ports = _free_ports(3)
        values = dict(zip(("port", "node1", "node2"), ports, strict=True), folder=self.folder)
        (self.folder / "slurm.conf").write_text(CONF.format(**values))
        (self.folder / "gres.conf").write_text(GRES.format(**values))
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(1024))
        for number in (0, 1):  # Slurm wants a device file for each GPU
            os.mknod(self.folder / "dev" / f"nvidia{number}", 0o020666, os.makedev(1, 3))
        self.folder.chmod(0o755)
        run = self.folder / "run"
        self._start(
            "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
            f"--pid-file={run}/munged.pid", f"--log-file={run}/munged.log", f"--seed-file={run}/munged.seed",
            "--num-threads=1",
        )  # fmt: skip
        until((self.folder / "munge.socket").exists)
        self._start("slurmctld", "-D", "-c")
        for node in ("node1", "node2"):
            self.start_node(node)
        until(lambda: self.ask("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "2")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["scancel", "--user", "root"], env=self.environment, capture_output=True, check=False)
        time.sleep(0.5)
        for name in ("node1", "node2", "slurmctld", "munged"):  # in any other order some would be left running
            if daemon := self.daemons.pop(name, None):
                daemon.terminate()
                try:
                    daemon.wait(10)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()

    def start_node(self, node: str) -> None:
        self._start("slurmd", "-D", "-c", "-N", node, name=node)

    def kill_node(self, node: str) -> None:
        """Kill a node without warning: its daemon and everything that it runs."""
        jobs = self.ask("squeue", "-h", "-w", node, "-t", "running", "-o", "%A").split()
        daemon = self.daemons.pop(node)
        daemon.kill()
        daemon.wait()
        for step in psutil.process_iter(["cmdline"]):
            title = " ".join(step.info["cmdline"] or [])
            if any(title.startswith(f"slurmstepd: [{job}.") for job in jobs):
                for process in [*step.children(recursive=True), step]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()

    def ask(self, *command: str) -> str:
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False).stdout

    def _start(self, command: str, *arguments: str, name: str | None = None) -> None:
        log = (self.folder / "run" / f"{name or command}.out").open("ab")
        program = shutil.which(command, path=_path())
        assert program
        self.daemons[name or command] = subprocess.Popen(
            [program, *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        log.close()


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [server.getsockname()[1] for server in servers]


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
