"""For authors: run chapters, write the `.ipynb` with outputs and the `.md` in canonical form.

python tools/notebooks.py            every chapter
python tools/notebooks.py 02 03      some of them
"""

from __future__ import annotations

import sys

import chapters

if __name__ == "__main__":
    chapters.use_own_settings()
    jobs = [
        (source, chapters.BUILD / "author" / f"{source.stem}.ipynb", {})
        for source in chapters.sources(sys.argv[1:])
    ]
    try:
        for source, notebook, seconds in chapters.run_all(jobs):
            chapters.write_atomic(source.with_suffix(".ipynb"), chapters.serialise(notebook))
            chapters.write_atomic(source, chapters.canonical(notebook))
            print(f"{source.stem}  written, {seconds:.0f} s", flush=True)
    except chapters.ChapterError as failed:
        sys.exit(str(failed))
