"""A notebook of solutions runs where it lies, and gives what stands in it."""

import nbformat
from nbclient import NotebookClient

import chapters
import outputs
import reading


def plain(cell) -> str:
    """What a cell shows, as text."""
    return "".join(output.data["text/plain"] for output in cell.get("outputs", []))


def test_solutions_run_in_the_state_of_their_chapter(own_settings):
    place = reading.places(chapters.sources(["01"])[0])[1]
    stored, again = (nbformat.read(place, as_version=4) for _ in range(2))
    here = {"metadata": {"path": str(place.parent)}}
    NotebookClient(again, startup_timeout=chapters.KERNEL_START, resources=here).execute()
    told = [[plain(cell) for cell in book.cells[2:]] for book in (stored, again)]
    assert any(told[0])
    assert all(map(outputs.agree, *told))
