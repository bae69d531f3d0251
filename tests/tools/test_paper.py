"""What a chapter glues becomes numbers in its result file."""

import pytest

import paper

CHAPTER = """# A chapter

```{code-cell}
:tags: [parameters]

scale = "fast"
seed = 3
sizes = [1, 2]
```

Then:

```{code-cell}
from myst_nb import glue

glue("count", 7, display=False)
glue("accuracy", 0.91, display=False)
glue("verdict", "holds", display=False)
glue("scale", scale)
```
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "01_x.md"
    path.write_text(CHAPTER, encoding="utf-8")
    return path


def test_record_holds_values_and_parameters(source, monkeypatch, tmp_path, own_settings):
    monkeypatch.setattr(paper, "RUNS", tmp_path)
    found = paper.record(source)
    assert found["values"] == {"accuracy": 0.91, "count": 7, "scale": "paper", "verdict": "holds"}
    assert list(found["values"]) == sorted(found["values"])
    assert found["parameters"] == {"scale": "paper", "seed": 3, "sizes": [1, 2]}
    assert found["chapter"] == "01_x"
    assert isinstance(found["seconds"], int)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("0.5", 0.5), ("'a'", "a"), ("[1, 2]", [1, 2]), ("tensor(1)", "tensor(1)")],
)
def test_literal(text, value):
    assert paper.literal(text) == value
