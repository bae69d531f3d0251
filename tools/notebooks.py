"""For authors: run chapters, write the notebooks to read and the texts in canonical form.

python tools/notebooks.py            every chapter
python tools/notebooks.py 02 03      some of them
python tools/notebooks.py --prose    run nothing: new texts around the stored outputs
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from nbformat import NotebookNode

import chapters
import reading


def write(source: Path, whole: NotebookNode) -> None:
    """Write the files of a chapter that differ from what is there."""
    text = chapters.canonical(chapters.read_text(source))
    for path, new in ({source: text} | reading.texts(source, whole)).items():
        if not path.exists() or path.read_text(encoding="utf-8") != new:
            chapters.write_atomic(path, new)
            print(f"written: {path.parent.name}/{path.name}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run chapters, write their notebooks.")
    parser.add_argument("chapter", nargs="*", help='such as "02"; all when none is named')
    parser.add_argument("--prose", action="store_true", help="keep the stored outputs, run nothing")
    args = parser.parse_args()
    picked = chapters.sources(args.chapter)
    work = chapters.BUILD / "author"
    jobs = [(source, work / f"{source.stem}.ipynb", {}) for source in picked]
    try:
        if args.prose:
            for source in picked:
                write(source, reading.compose(source))
            return
        chapters.use_own_settings()
        for source, whole, seconds in chapters.run_all(jobs):
            print(f"{source.stem}  ran, {seconds:.0f} s", flush=True)
            write(source, whole)
    except chapters.ChapterError as failed:
        sys.exit(str(failed))


if __name__ == "__main__":
    main()
