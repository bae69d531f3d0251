"""Build the book. `python tools/book.py` runs every chapter here, then builds the site from that.

    python tools/book.py               run chapters at `fast`, build _build/html
    python tools/book.py --committed   run nothing, build _build/site from the committed outputs,
                                       with PDFs and a zip of it all

A chapter is run again only when its text, the package, the data or the requirements changed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import build_site
import chapters
import chromium
import last_changed
import reading
import stamps

SCALE = "fast"
RUNS = chapters.BUILD / SCALE


def chapter_key(source: Path) -> str:
    """What a chapter's outputs depend on."""
    return stamps.key([source], SCALE)


def run_chapters() -> list[Path]:
    """Bring the runs up to date; returns the executed notebooks, stored ones of what cannot run."""
    keys = {source: chapter_key(source) for source in chapters.runnable()}
    targets = {source: RUNS / f"{source.stem}.ipynb" for source in keys}
    stale = [source for source in keys if not stamps.is_current(targets[source], keys[source])]
    if fresh := [source.stem for source in keys if source not in stale]:
        print(f"unchanged, not run again: {', '.join(fresh)}", flush=True)
    jobs = [(source, RUNS / "raw" / f"{source.stem}.ipynb", {"scale": SCALE}) for source in stale]
    for source, notebook, seconds in chapters.run_all(jobs):
        targets[source].with_suffix(".key").unlink(missing_ok=True)
        chapters.write_atomic(targets[source], chapters.serialise(notebook))
        stamps.set_current(targets[source], keys[source])
        print(f"ran {source.stem}  ({seconds:.0f} s)", flush=True)
    others = [source for source in chapters.sources() if source not in keys]
    if others:
        print(f"shown as stored: {', '.join(source.stem for source in others)}", flush=True)
    return sorted([*targets.values(), *reading.gather(others)], key=lambda path: path.stem)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the chapters and build the site.")
    parser.add_argument("--committed", action="store_true", help="run nothing, use stored outputs")
    parser.add_argument("--without-pdf", action="store_true", help="print no chapters")
    args = parser.parse_args()
    stored, printed = args.committed, args.committed and not args.without_pdf
    chapters.use_own_settings()
    try:
        notebooks = reading.gather() if stored else run_chapters()
        target = chapters.BUILD / ("site" if stored else "html")
        pages = stamps.files_below(
            "book", *chapters.PACKAGES, "studies", "notebooks/labs/student", "tools"
        )
        config = [chapters.ROOT / name for name in ("_config.yml", "_toc.yml", "requirements.txt")]
        repository, browser = build_site.repository(), printed and chromium.wanted("PDFs")
        made_of = [*pages, *notebooks, *config]
        days = last_changed.dates(chapters.ROOT)
        key = stamps.digest(made_of, *stamps.machine(), f"{repository} {browser} {days}")
        if stamps.is_current(target, key):
            print("the site is up to date")
        else:
            start = time.perf_counter()
            build_site.build(notebooks, target, repository, browser or None, whole=stored)
            stamps.set_current(target, key)
            print(f"built the site  ({time.perf_counter() - start:.0f} s)")
    except (chapters.ChapterError, build_site.SiteError, ValueError, OSError) as failed:
        sys.exit(f"\n{failed}")
    except KeyboardInterrupt:
        sys.exit("\nstopped; the next run keeps what is finished")
    print(f"\nOpen in a browser: {(target / 'index.html').as_uri()}")


if __name__ == "__main__":
    main()
