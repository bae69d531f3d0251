"""For authors: run chapters, write readers' notebooks and the texts in canonical form.

python tools/notebooks.py            every chapter
python tools/notebooks.py 02 03      some of them; evidence/02, or evidence for all its pages
python tools/notebooks.py --prose    run nothing; put new texts around the stored outputs
"""

from __future__ import annotations

import sys
from pathlib import Path

from nbformat import NotebookNode

import chapters
import reading


def write(source: Path, whole: NotebookNode) -> None:
    """Write the files of a chapter that have changed."""
    text = chapters.canonical(chapters.read_text(source))
    for path, new in ({source: text} | reading.texts(source, whole)).items():
        if not path.exists() or path.read_text(encoding="utf-8") != new:
            chapters.write_atomic(path, new)
            print(f"written: {path.parent.name}/{path.name}", flush=True)


if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name != "--prose"]
    try:
        picked, work = chapters.sources(names), chapters.BUILD / "author"
        if "--prose" in sys.argv:
            for source in picked:
                write(source, reading.compose(source))
            sys.exit()
        if reasons := [why for source in picked if (why := chapters.left_out(source))]:
            raise chapters.ChapterError("\n".join(reasons))
        chapters.use_own_settings()
        jobs = [(source, work / f"{chapters.key(source)}.ipynb", {}) for source in picked]
        for source, whole, seconds in chapters.run_all(jobs):
            print(f"{chapters.key(source)}  ran, {seconds:.0f} s", flush=True)
            write(source, whole)
    except (chapters.ChapterError, ValueError) as failed:
        sys.exit(str(failed))
