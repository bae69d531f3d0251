"""Command line: ``python -m fedlab_mini.flower plan | check | ...``, each with its ``--help``."""

from __future__ import annotations

import sys

from .fleet import main

if __name__ == "__main__":
    sys.exit(main())
