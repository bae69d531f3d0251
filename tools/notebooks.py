"""For authors: run chapters, write the `.ipynb` with outputs and the `.md` in canonical form.

python tools/notebooks.py            every chapter
python tools/notebooks.py 02 03      some of them
"""

from __future__ import annotations

import argparse
import sys

import chapters


def main() -> None:
    parser = argparse.ArgumentParser(description="Run chapters, store outputs and canonical texts.")
    parser.add_argument("chapter", nargs="*", help='such as "02"; all when none is named')
    picked = chapters.sources(parser.parse_args().chapter)
    chapters.use_own_settings()
    work = chapters.BUILD / "author"
    jobs = [(source, work / f"{source.stem}.ipynb", {}) for source in picked]
    try:
        for source, notebook, seconds in chapters.run_all(jobs):
            chapters.write_atomic(source.with_suffix(".ipynb"), chapters.serialise(notebook))
            chapters.write_atomic(source, chapters.canonical(notebook))
            print(f"{source.stem}  written, {seconds:.0f} s", flush=True)
    except chapters.ChapterError as failed:
        sys.exit(str(failed))


if __name__ == "__main__":
    main()
