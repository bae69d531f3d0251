"""Kernels for tests that begin as a copy of a process which has imported the heavy packages.

A chapter's own kernel needs some four seconds of a processor to import torch and what stands on
it, and `make test` starts some forty. A copy has all of it in memory, but no name is bound there.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

HEAVY = (
    "ipykernel.kernelapp",
    "anywidget",
    "fedlab_mini",
    "matplotlib.figure",
    "pandas",
    "sklearn.datasets",
)
INLINE = "module://matplotlib_inline.backend_inline"
LAUNCHER = "ipykernel_launcher"


def use() -> None:
    """From now on this process starts Python kernels as copies; on Linux, where that is safe."""
    if sys.platform == "linux":
        factory = KernelProvisionerFactory.instance()
        factory.provisioners[__name__] = EntryPoint(__name__, "warm:Warm", factory.GROUP_NAME)
        factory.default_provisioner_name = __name__


class Warm(LocalProvisioner):
    """Starts kernels of this Python as copies, all others as ever."""

    async def launch_kernel(self, cmd: list[str], **options: Any) -> Any:
        if cmd[0] != sys.executable or LAUNCHER not in cmd:
            return await super().launch_kernel(cmd, **options)
        copies = multiprocessing.get_context("forkserver")
        copies.set_forkserver_preload([*HEAVY])
        folder = str(options.get("cwd") or os.getcwd())
        words = cmd[cmd.index(LAUNCHER) :]
        process = copies.Process(target=serve, args=(words, options["env"], folder))
        process.start()
        self.process, self.pid, self.pgid = Copy(process), process.pid, process.pid
        return self.connection_info


class Copy:
    """A copied process with the methods of `subprocess.Popen` that a provisioner calls."""

    stdin = stdout = stderr = None

    def __init__(self, process: Any) -> None:
        self.process, self.pid = process, process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self) -> int:
        self.process.join()
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def serve(words: list[str], env: dict[str, str], folder: str) -> None:
    """Become the kernel that these words ask for, with the paths and settings of a fresh one."""
    import matplotlib
    from ipykernel.kernelapp import IPKernelApp

    matplotlib.rcParams["backend"] = INLINE  # a kernel asks for it by a setting read at import
    os.setsid()  # interrupted and ended with all that it starts
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    tools = Path(__file__).parent
    ours = (str(tools), str(tools.with_name("tests")))
    sys.path[:] = [path for path in sys.path if not path.startswith(ours)]
    sys.modules.pop(__name__)
    with open(os.devnull, "w") as nowhere:
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)
    sys.argv = words
    IPKernelApp.launch_instance()
