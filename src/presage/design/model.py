"""The network that a search ends with: it foretells values of rows as the user has them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from presage.design.networks import Fitted, mixture_log_density
from presage.design.rows import Encoding, columns_of_table
from presage.networks.functions import Functions

__all__ = ["DesignedModel"]


@dataclass(frozen=True)
class DesignedModel:
    """A mixture of trained networks, with everything that was done to the table before.

    Attributes:
        params: the design.
        encoding: how rows become numbers.
        fitted: the networks.
        scale: by which the spread of predictions is stretched, so that rows kept back are foretold best.
    """

    params: dict[str, Any]
    encoding: Encoding
    fitted: Fitted
    scale: float

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Mean of a new value for each row, [n], and with `return_std` its standard deviation, noise included."""
        mean, variance = self._law(X)
        middle = mean.mean(axis=0)
        if not return_std:
            return middle
        return middle, self.scale * np.sqrt(mean.var(axis=0) + variance.mean(axis=0))

    def log_density(self, X: Any, y: Any) -> np.ndarray:
        """Log predictive density of values [n]."""
        return mixture_log_density(np.asarray(y, dtype=float), *self._law(X), self.scale)

    def interval(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Bounds between which a new value lies with this probability, as much below as above, [n] each."""
        from scipy.special import ndtr

        mean, variance = self._law(X)
        middle, spread = mean.mean(axis=0), np.sqrt(variance)
        far = 12.0 * (spread.max(axis=0) + np.ptp(mean, axis=0))
        bounds = []
        for share in (0.5 - 0.5 * level, 0.5 + 0.5 * level):
            low, high = middle - far, middle + far
            for _ in range(60):  # halving: the distribution function rises
                half = 0.5 * (low + high)
                below = ndtr((half - mean) / spread).mean(axis=0) < share
                low, high = np.where(below, half, low), np.where(below, high, half)
            bounds.append(middle + self.scale * (low - middle))
        return bounds[0], bounds[1]

    def _law(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        return self.fitted.law(self.encoding.apply(*columns_of_table(X)))

    def save(self, path: str | Path) -> None:
        """Write the model to a .npz file, without pickle."""
        about = {
            "params": self.params, "encoding": self.encoding.to_json(), "scale": self.scale,
            "activation": self.fitted.functions.activation,
        }  # fmt: skip
        arrays = self.fitted.functions.arrays()
        with open(path, "wb") as file:
            np.savez(
                file, allow_pickle=False, about=np.array(json.dumps(about)), log_noise=self.fitted.log_noise, **arrays
            )

    @staticmethod
    def load(path: str | Path) -> "DesignedModel":
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays.pop("about")))
        log_noise = arrays.pop("log_noise")
        fitted = Fitted(Functions.from_arrays(arrays, about["activation"]), log_noise)
        return DesignedModel(about["params"], Encoding.from_json(about["encoding"]), fitted, about["scale"])
