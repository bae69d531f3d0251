"""NVFLARE's FedCE: its aggregator, its minus models; `python nvflare_scores.py CELLS OUT`.

A client's score of the model without it is 1 - accuracy on the server's samples; the first is 1.
"""

import torch
from cells import Cell, main
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_opt.pt.fedce import FedCEConstants, FedCEModelAggregator, PTFedCEHelper


class Flat(torch.nn.Module):
    """A model as one vector of parameters."""

    def __init__(self, parameters):
        super().__init__()
        self.w = torch.nn.Parameter(torch.as_tensor(parameters))


def scores(cell: Cell) -> dict[str, list[float]]:
    aggregator, weights = FedCEModelAggregator(), {}
    names = [f"site-{client}" for client in range(cell.clients)]
    errors = dict.fromkeys(names, 1.0)
    for number, (theta, updates) in enumerate(zip(cell.theta, cell.updates, strict=True)):
        for name, update in zip(names, updates, strict=True):
            result = FLModel(params={"w": update}, params_type=ParamsType.DIFF)
            result.current_round = number
            result.meta["client_name"] = name
            aggregator.accept_model(PTFedCEHelper.set_minus_model_score(result, errors[name]))
        made = aggregator.aggregate_model()
        aggregator.reset_stats()
        weights = made.meta[FedCEConstants.CONTRIBUTION_WEIGHTS]
        for name, update in zip(names, updates, strict=True):
            told = FLModel(params=made.params, meta=made.meta)
            weight = PTFedCEHelper.get_contribution_weight(told, name)
            state = {"w": theta + update}
            average = Flat(theta + made.params["w"])
            minus = PTFedCEHelper.make_minus_model(average, state, weight)
            errors[name] = 1 - cell.accuracy(minus.w.detach().numpy())
    return {"NVFLARE: FedCE": [weights[name] for name in names]}


if __name__ == "__main__":
    main(scores)
