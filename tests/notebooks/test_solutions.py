"""A notebook of solutions runs where it lies, and gives what stands in it."""

import nbformat
from nbclient import NotebookClient

import chapters
import outputs
import reading


def test_solutions_run_in_the_state_of_their_chapter(own_settings):
    place = reading.places(chapters.sources(["02"])[0])[1]
    stored = nbformat.read(place, as_version=4)
    again = nbformat.read(place, as_version=4)
    here = {"metadata": {"path": str(place.parent)}}
    NotebookClient(again, timeout=600, resources=here).execute()
    cells = zip(stored.cells[2:], again.cells[2:], strict=True)
    said = [[x.get("outputs", []) for x in pair] for pair in cells]
    texts = [[x.get("text", "") for x in outs] for pair in said for outs in pair]
    assert any(texts)
    assert all(outputs.agree(str(a), str(b)) for a, b in zip(texts[::2], texts[1::2], strict=True))
