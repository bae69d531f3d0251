"""The model that the federation trains; the order of its parameters is that of the files."""

import torch

NET = torch.nn.Sequential(
    torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
)
