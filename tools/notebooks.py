"""For authors: run chapters, write readers' notebooks and the texts in canonical form.

python tools/notebooks.py            every chapter
python tools/notebooks.py 02 03      some of them; evidence/02, or evidence for all its pages
python tools/notebooks.py --prose    run nothing; put new texts around the stored outputs

A notebook into which somebody has written is not replaced: nothing is run before it has another
name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode

import chapters
import reading


def refuse_edited(sources: Iterable[Path]) -> None:
    """Raise ChapterError if somebody has written into notebooks that would be replaced."""
    places = [path for source in sources for path in reading.places(source) if reading.edited(path)]
    if places:
        named = "\n".join(str(path.relative_to(chapters.NOTEBOOKS.parent)) for path in places)
        mine = places[0].with_stem(f"{places[0].stem} (mine)")
        raise chapters.ChapterError(
            f"Somebody has written notes or cells into:\n{named}\nThey are kept, and no chapter "
            "is made anew. Give your notebook another name first, such as "
            f"{mine.name}; what shall stay in the book belongs into its text in book/."
        )


def write(source: Path, whole: NotebookNode) -> None:
    """Write the files of a chapter that have changed."""
    text, made = chapters.canonical(chapters.read_text(source)), reading.texts(source, whole)
    refuse_edited([source])  # again, because chapters run for minutes
    for path, new in ({source: text} | made).items():
        if not path.exists() or path.read_text(encoding="utf-8") != new:
            chapters.write_atomic(path, new)
            print(f"written: {path.parent.name}/{path.name}", flush=True)


def main(words: list[str]) -> None:
    names = [word for word in words if word != "--prose"]
    try:
        picked, work = chapters.sources(names), chapters.BUILD / "author"
        refuse_edited(picked)
        if "--prose" in words:
            for source in picked:
                write(source, reading.compose(source))
            return
        if reasons := [why for source in picked if (why := chapters.left_out(source))]:
            raise chapters.ChapterError("\n".join(reasons))
        chapters.use_own_settings()
        jobs = [(source, work / f"{chapters.key(source)}.ipynb", {}) for source in picked]
        for source, whole, seconds in chapters.run_all(jobs):
            print(f"{chapters.key(source)}  ran, {seconds:.0f} s", flush=True)
            write(source, whole)
    except (chapters.ChapterError, ValueError) as failed:
        sys.exit(str(failed))


if __name__ == "__main__":
    main(sys.argv[1:])
