"""Adam's step [Kingma & Ba 2015], where the caller keeps the parameters, gradients and moments.

It calls torch's own function. ``torch.optim.Adam`` takes seconds to import on first use, and hides
the moments, which a strategy has to write into its state.
"""

from __future__ import annotations

from functools import partial

from torch.optim.adam import adam

# adam_step(parameters, gradients, first_moments, second_moments, state_steps=counts, lr=lr): one
# step down the gradients, in place; moments and counts begin at zero [kingma2014adam].
adam_step = partial(
    adam,
    max_exp_avg_sqs=[],
    fused=True,
    amsgrad=False,
    maximize=False,
    beta1=0.9,
    beta2=0.999,
    weight_decay=0.0,
    eps=1e-8,
)
