"""A Flower app: digits, one client with flipped labels, and a score for every client.

What to change for your own data: ``load`` gives a node's samples, ``main`` the server's.
"""

import json
from pathlib import Path

import torch
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

import fedlab_flower as flower
import fedlab_mini as fm

NET = fm.mlp(64, 32, 10)


def federation(clients: int) -> fm.Federation:
    """Digits dealt to the clients; the last one's labels are flipped."""
    wrong = {clients - 1: fm.FlipLabels(0.8)}
    fed = fm.federation(fm.load("digits"), clients=clients, corrupt=wrong, seed=0)
    return fed.to(dtype=torch.float64)


def load(context: Context) -> tuple[int, torch.Tensor, torch.Tensor]:
    """A node's own samples: here a part of the digits, named in its node config."""
    k = int(context.node_config["partition-id"])
    return k, *federation(int(context.run_config["clients"])).client(k)


client = flower.client_app(load, NET)
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """The server's side, by the run's settings."""
    asked = context.run_config
    nodes = json.loads(Path(str(asked["nodes"])).read_text()) if asked["nodes"] else {}
    fed = federation(int(asked["clients"]))
    run = flower.server_app(
        NET,
        getattr(fm, str(asked["strategy"]))(),
        clients={int(node): k for node, k in nodes.items()} or fed.clients,
        same_as_train=bool(asked["same-as-train"]),
        validation=fed.validation,
        test=fed.test,
        rounds=int(asked["rounds"]),
        seed=int(asked["seed"]),
        timeout=float(asked["timeout"]),
        patience=float(asked["patience"]),
        history=str(asked["history"]) or None,
    )
    run(grid, context)
