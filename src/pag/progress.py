"""Where a run is, and what its re-plans cost by then."""

import json
from dataclasses import dataclass, field, replace
from typing import Self

ROUNDING = 1e-9  # 1 − 0.98 is more than 0.02


@dataclass(frozen=True)
class Price:
    """How much of loss.replan_weight is asked for.

    Where validation falls too far under the best it has been, nothing is asked for until it is back, and half as
    much from then on: a model that plans less than its task needs forgets the task.
    """

    share: float = 1.0
    resting: bool = False
    goal: float | None = None  # the best score so far, the held switch's included

    @property
    def now(self) -> float:
        return 0.0 if self.resting else self.share

    def after(self, value: float, direction: int, guard: float, held: bool) -> Self:
        """The price once a validation found this value; `direction` is −1 where less is better."""
        goal = value if self.goal is None else max(value * direction, self.goal * direction) * direction
        spoilt = (goal - value) * direction > (guard + ROUNDING) * abs(goal)
        if held or not spoilt:
            return replace(self, goal=goal, resting=False)
        return replace(self, goal=goal, resting=True, share=self.share if self.resting else self.share / 2)


@dataclass(frozen=True)
class Progress:
    """Where a run is; with the weights and the optimiser, all that a resumed run needs."""

    update: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_update: int = 0
    stale: int = 0  # validations since the best
    first_loss: float | None = None  # validation loss of the untrained model
    last_loss: float | None = None  # of the latest validation
    released: int | None = None  # the update at which the switch was let go
    price: Price = field(default_factory=Price)

    @classmethod
    def read(cls, text: bytes) -> Self:
        values = json.loads(text)
        return cls(**{**values, "price": Price(**values.get("price", {}))})
