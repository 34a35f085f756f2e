"""The notebook of examples/ runs from its first cell to its last. It starts Java, so it is among Spark's tests."""

import json
import os
import re
import shutil

import pytest


@pytest.fixture
def notebook(root):
    return root / "examples" / "analysis.ipynb"


def test_it_is_kept_without_output(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 5
    for cell in code:
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


@pytest.mark.wide
def test_it_goes_from_a_log_to_a_recommendation(
    root, notebook, tmp_path, monkeypatch, require_tool, require_module
):
    require_tool("java")
    for module in ("pyspark", "matplotlib", "ipykernel"):
        require_module(module)
    nbclient, nbformat = require_module("nbclient"), require_module("nbformat")
    shutil.copy(root / "examples" / "barrier.toml", tmp_path)  # nothing else of the folder is needed
    path = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    read = nbformat.read(notebook, as_version=4)
    client = nbclient.NotebookClient(
        read, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    cells = {cell["id"]: cell.get("outputs", []) for cell in client.execute().cells}
    drawn = [one for made in cells.values() for one in made if "image/png" in one.get("data", {})]
    assert len(drawn) >= 3
    (table,) = cells["recommend"]
    chosen = re.findall(r"^\d+ +\S+ +(True|False) ", table["data"]["text/plain"], re.MULTILINE)
    assert chosen.count("True") == 1
    assert (tmp_path / "notebook" / "tables" / "messages").is_dir()
