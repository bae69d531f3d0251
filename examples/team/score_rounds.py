"""Score all rounds in rounds/, write scores.csv, name the clients without whom all were better."""

import sys

import numpy as np
from model import NET

import fedlab_mini as fm

METHODS = ["CGSV", "leave_one_out"]


def main() -> None:
    """Score the files of the rounds, and write the table."""
    try:
        rounds = fm.records("rounds")
    except ValueError as error:
        sys.exit(f"{error}; see README.md for how a server writes them")
    with np.load("validation.npz") as samples:
        validation = samples["x"], samples["y"]
    scores = fm.score(rounds, net=fm.Model(NET), validation=validation, methods=METHODS)
    scores.to_csv("scores.csv")
    print(scores)
    if low := scores.index[scores.leave_one_out < 0].tolist():
        sys.exit(f"the rounds would be better without: {', '.join(map(str, low))}")


if __name__ == "__main__":
    main()
