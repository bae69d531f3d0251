"""The same federated round in FedLab, pfl and Flower; runs in the environment that holds them.

Each function takes the same settings and returns a function for ``worker``: rounds of FedAvg on
random data, all clients, one epoch of minibatch SGD each, no evaluation.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable

import torch
from torch import Tensor, nn

Pair = tuple[Tensor, Tensor]


def _mlp(widths: list[int]) -> nn.Sequential:
    parts: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        parts += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


@functools.cache
def _data(inputs: int, classes: int, clients: int, samples: int) -> list[Pair]:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(clients, samples, inputs, generator=generator)
    y = torch.randint(0, classes, (clients, samples), generator=generator)
    return list(zip(x, y, strict=True))


def fedlab(
    *, widths: list[int], clients: int, samples: int, batch: int, lr: float, rounds: int
) -> Callable[[], None]:
    """FedLab's standalone pipeline: serial trainer, synchronous server."""
    from fedlab.contrib.algorithm.fedavg import FedAvgSerialClientTrainer, FedAvgServerHandler
    from fedlab.core.standalone import StandalonePipeline
    from torch.utils.data import DataLoader, TensorDataset

    pairs = _data(widths[0], widths[-1], clients, samples)

    class Clients:
        def get_dataloader(self, k: int, batch_size: int) -> DataLoader:
            return DataLoader(TensorDataset(*pairs[k]), batch_size=batch_size, shuffle=True)

    class Quiet(StandalonePipeline):
        def evaluate(self) -> None:
            """Do nothing, because evaluation is left out for all."""

    def repeat() -> None:
        model = _mlp(widths)
        trainer = FedAvgSerialClientTrainer(model, clients)
        trainer.setup_dataset(Clients())
        trainer.setup_optim(1, batch, lr)
        Quiet(FedAvgServerHandler(model, rounds, 1.0), trainer).main()

    return repeat


def pfl(
    *, widths: list[int], clients: int, samples: int, batch: int, lr: float, rounds: int
) -> Callable[[], None]:
    """pfl's simulated backend: FederatedAveraging on user datasets of tensors."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByDatapoints
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = _mlp(widths)

        def loss(self, x: Tensor, y: Tensor) -> Tensor:
            return nn.functional.cross_entropy(self.layers(x), y)

        def metrics(self, x: Tensor, y: Tensor) -> dict:
            return {}

    pairs = _data(widths[0], widths[-1], clients, samples)
    users = [Dataset(raw_data=pair, user_id=str(k)) for k, pair in enumerate(pairs)]
    names = list(range(clients))
    backend = SimulatedBackend(
        FederatedDataset(users.__getitem__, get_user_sampler("minimize_reuse", names)),
        None,
        postprocessors=[WeightByDatapoints()],
    )
    local = NNTrainHyperParams(local_num_epochs=1, local_learning_rate=lr, local_batch_size=batch)
    params = NNAlgorithmParams(
        central_num_iterations=rounds,
        evaluation_frequency=rounds + 1,
        train_cohort_size=clients,
        val_cohort_size=0,
    )

    def repeat() -> None:
        net = Net()
        central = torch.optim.SGD(net.parameters(), lr=1.0)
        model = PyTorchModel(net, torch.optim.SGD, central)
        FederatedAveraging().run(params, backend, model, local)

    return repeat


def flower(
    *, widths: list[int], clients: int, samples: int, batch: int, lr: float, rounds: int
) -> Callable[[], dict]:
    """Flower's simulation runtime; CPU of all its processes, without start-up and round 1."""
    os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    client, server = ClientApp(), ServerApp()

    @client.train()
    def train(message, context):
        x, y = _data(widths[0], widths[-1], clients, samples)[context.node_config["partition-id"]]
        model = _mlp(widths)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimiser = torch.optim.SGD(model.parameters(), lr=lr)
        for at in torch.randperm(len(y)).split(batch):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x[at]), y[at]).backward()
            optimiser.step()
        metrics = MetricRecord({"num-examples": len(y)})
        arrays = ArrayRecord(model.state_dict())
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    marks: list[float] = []

    class Marked(FedAvg):
        def aggregate_train(self, server_round, replies):
            replies = list(replies)
            failed = sum(reply.has_error() for reply in replies)
            assert (len(replies), failed) == (clients, 0), f"{failed} of {len(replies)} failed"
            aggregated = super().aggregate_train(server_round, replies)
            marks.append(_family_seconds())
            return aggregated

    @server.main()
    def main(grid, context):
        everybody = {"min_train_nodes": clients, "min_available_nodes": clients}
        strategy = Marked(fraction_evaluate=0.0, **everybody)
        start = ArrayRecord(_mlp(widths).state_dict())
        strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds + 1)

    def repeat() -> dict:
        marks.clear()
        resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
        run_simulation(server, client, num_supernodes=clients, backend_config=resources)
        return {"seconds": marks[-1] - marks[0]}

    return repeat


def _family_seconds() -> float:
    """CPU seconds of this process and all its descendants so far."""
    import psutil

    total = 0.0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            spent = process.cpu_times()
            total += spent.user + spent.system
    return total
