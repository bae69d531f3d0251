"""Score all rounds in rounds/, write scores.csv, name the clients without whom all were better."""

import subprocess
import sys
from pathlib import Path

import pandas as pd

METHODS = "CGSV,leave_one_out"


def main() -> None:
    """Run ``python -m fedlab_mini score`` on the files, then read its table."""
    rounds = sorted(Path("rounds").glob("round_*.npz"))
    if not rounds:
        sys.exit("rounds/: no files round_*.npz; see README.md for how a server writes them")
    words = [sys.executable, "-m", "fedlab_mini", "score", *map(str, rounds)]
    words += ["--net", "model:NET", "--validation", "validation.npz"]
    words += ["--methods", METHODS, "--metric", "loss", "--csv", "scores.csv"]
    if status := subprocess.run(words).returncode:
        sys.exit(status)
    scores = pd.read_csv("scores.csv", index_col="client")
    if low := scores.index[scores.leave_one_out < 0].tolist():
        sys.exit(f"the rounds would be better without: {', '.join(map(str, low))}")


if __name__ == "__main__":
    main()
