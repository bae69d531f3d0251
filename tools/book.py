"""Build the book: run every chapter on this machine, then build the site from the outputs.

    python tools/book.py               run chapters at `fast`, build _build/html
    python tools/book.py --committed   run nothing, build _build/site from the committed outputs,
                                       with PDFs and a zip of it all

A chapter is run again only when its text, the package, the data or the requirements changed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import build_site
import chapters
import chromium
import reading

SCALE = "fast"
RUNS = chapters.BUILD / SCALE
REACHED = (*chapters.PACKAGES, "studies", "data", "examples", "notebooks/quizzes")
REACHED += ("requirements.txt", "tools/chapters.py", "tools/figures.py", "tools/figures.toml")
KIND = ("ATEN_CPU_CAPABILITY", "OMP_NUM_THREADS", "FEDLAB_DATA", "FEDLAB_RESULTS")


def digest(files: Iterable[Path], *more: str) -> str:
    """Hash of the names and contents of files and folders, and of further strings."""
    total = hashlib.sha256("\0".join(more).encode())
    for path in sorted(path for place in files for path in (place, *place.rglob("*"))):
        name = path.relative_to(chapters.ROOT)
        if path.is_file() and not any(part.startswith((".", "__pyc")) for part in name.parts):
            total.update(name.as_posix().encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def chapter_keys(sources: Iterable[Path]) -> dict[Path, str]:
    """What each chapter's outputs depend on, apart from the installed packages."""
    kind = (f"{name}={os.environ.get(name, '')}" for name in KIND)
    reached = digest([chapters.ROOT / name for name in REACHED], SCALE, sys.version, *kind)
    return {source: digest([source], reached) for source in sources}


def run_chapters() -> list[Path]:
    """Bring the runs up to date; return executed notebooks, or stored ones if they cannot run."""
    # Evidence is long and changes only with the stored rows, so it is shown as stored.
    keys = chapter_keys(chapters.lessons(chapters.runnable()))
    targets = {source: RUNS / f"{source.stem}.ipynb" for source in keys}
    stamps = {source: target.with_suffix(".key") for source, target in targets.items()}
    stale = [
        source
        for source, stamp in stamps.items()
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != keys[source]
    ]
    if fresh := [source.stem for source in keys if source not in stale]:
        print(f"unchanged, not run again: {', '.join(fresh)}", flush=True)
    jobs = [(source, RUNS / "raw" / f"{source.stem}.ipynb", {"scale": SCALE}) for source in stale]
    for source, notebook, seconds in chapters.run_all(jobs):
        stamps[source].unlink(missing_ok=True)
        chapters.write_atomic(targets[source], chapters.serialise(notebook))
        chapters.write_atomic(stamps[source], keys[source])
        print(f"ran {source.stem}  ({seconds:.0f} s)", flush=True)
    others = [source for source in chapters.sources() if source not in keys]
    if others:
        print(f"shown as stored: {', '.join(map(chapters.key, others))}", flush=True)
    return sorted([*targets.values(), *reading.gather(others)], key=chapters.key)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the chapters and build the site.")
    parser.add_argument("--committed", action="store_true", help="run nothing, use stored outputs")
    parser.add_argument("--without-pdf", action="store_true", help="print no chapters")
    args = parser.parse_args()
    target = chapters.BUILD / ("site" if args.committed else "html")
    chapters.use_own_settings()
    try:
        notebooks = reading.gather() if args.committed else run_chapters()
        printed = args.committed and not args.without_pdf
        browser = chromium.wanted("PDFs") if printed else None
        start = time.perf_counter()
        build_site.build(notebooks, target, build_site.repository(), browser, args.committed)
        print(f"built the site  ({time.perf_counter() - start:.0f} s)")
    except (chapters.ChapterError, build_site.SiteError, ValueError, OSError) as failed:
        sys.exit(f"\n{failed}")
    except KeyboardInterrupt:
        sys.exit("\nstopped; the next run keeps what is finished")
    print(f"\nOpen in a browser: {(target / 'index.html').as_uri()}")


if __name__ == "__main__":
    main()
