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
    said = [
        [
            output.get("text", "")
            for cell in notebook.cells[2:]
            for output in cell.get("outputs", [])
        ]
        for notebook in (stored, again)
    ]
    assert len(said[0]) == len(said[1]) > 0
    assert all(outputs.agree(old, new) for old, new in zip(*said, strict=True))
