"""A copied kernel is as a fresh one: its folder, paths, settings and figures, and its end."""

import os
import signal
import sys

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

import chapters
import warm

pytestmark = pytest.mark.usefixtures("own_settings")
SAYS = """import sys
loaded = "torch" in sys.modules, "fedlab_mini" in sys.modules
import importlib.util, os
names = "chapters", "warm", "helpers", "pytest"
hidden = [name for name in names if importlib.util.find_spec(name)]
print(*loaded, "torch" in globals(), hidden, os.getcwd(), os.environ["MINE"], os.getpid())"""
DRAWS = 'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.axis("off");'


def executed(folder, *sources):
    notebook = nbformat.v4.new_notebook(metadata=chapters.METADATA)
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    where = {"metadata": {"path": str(folder)}}
    return NotebookClient(notebook, timeout=60, resources=where).execute().cells


@pytest.mark.skipif(sys.platform != "linux", reason="kernels are copied on Linux only")
def test_a_copy_has_what_is_heavy_and_else_what_a_fresh_kernel_has(tmp_path, monkeypatch):
    monkeypatch.setenv("MINE", "set later")
    said, drawn = executed(tmp_path, SAYS, DRAWS)
    expected = f"True True False ['pytest'] {tmp_path} set later "
    assert said.outputs[0].text.startswith(expected)
    assert int(said.outputs[0].text.split()[-1]) != os.getpid()
    assert [output.output_type for output in drawn.outputs] == ["display_data"]
    (again,) = executed(tmp_path, "print('said' in globals())")
    assert again.outputs[0].text == "False\n"


def test_a_copy_that_dies_is_noticed(tmp_path):
    with pytest.raises(DeadKernelError):
        executed(tmp_path, f"import os\nos.kill(os.getpid(), {int(signal.SIGKILL)})")


def test_elsewhere_kernels_start_as_ever(monkeypatch):
    factory = warm.KernelProvisionerFactory.instance()
    monkeypatch.setattr(factory, "default_provisioner_name", "local-provisioner")
    monkeypatch.setattr(sys, "platform", "darwin")
    warm.use()
    assert factory.default_provisioner_name == "local-provisioner"
