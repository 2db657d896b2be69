"""Transfer of cost models from a platform with cheap samples to a target with few samples (DASH).

`counts` describes programs on a pattern, and `source` holds measurements and is a model of another platform. `residual`
corrects the source model by the target's samples, with NumPy alone or with trees. DASH's own network is in
`tuner.research.networks.dash`, its training in `tuner.research.training.few_shot` (extra `train`).
"""

from __future__ import annotations
