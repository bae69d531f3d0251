"""Runs in an environment of its own: what coopgame says of games on standard input, as JSON."""

import json
import sys

import coopgame

answers = []
for table in json.load(sys.stdin):
    game = coopgame.Game(table[1:])  # without the empty coalition; bit i is player i
    found = coopgame.prenucleolus(game)
    try:
        rational = coopgame.nucleolus(game)["allocation"]
    except ValueError:  # no division gives each player at least what it has alone
        rational = None
    answers.append(
        {
            "shapley": list(coopgame.shapley(game)),
            "nucleolus": list(found["allocation"]),
            "rational": rational,
            "epsilon": found["levels"][0],
        }
    )
json.dump(answers, sys.stdout)
