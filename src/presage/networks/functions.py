"""Trained networks as plain functions: stacked weights in float64 NumPy, with derivatives in the inputs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

ROWS = 1024  # evaluated at once; bounds the memory


def _relu(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.maximum(a, 0.0), (a > 0.0).astype(a.dtype)


def _tanh(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    value = np.tanh(a)
    return value, 1.0 - value**2


def _silu(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    share = 0.5 * (1.0 + np.tanh(0.5 * a))
    return a * share, share * (1.0 + a * (1.0 - share))


VALUE_AND_SLOPE = {"relu": _relu, "tanh": _tanh, "silu": _silu}


@dataclass(frozen=True)
class Functions:
    """Perceptrons of equal shape, from inputs as they were given to values as they were given.

    Attributes:
        weights: one array per layer, [functions, inputs, outputs].
        biases: one array per layer, [functions, outputs].
        activation: relu, tanh or silu.
    """

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    activation: str

    @staticmethod
    def of(
        layers: Sequence[tuple[np.ndarray, np.ndarray]], present: Sequence[np.ndarray], activation: str,
        x_center: np.ndarray, x_scale: np.ndarray, y_center: np.ndarray, y_scale: np.ndarray,
    ) -> "Functions":  # fmt: skip
        """Functions of standardised inputs and values, the standardisation taken into their first and last layers.

        Args:
            layers: weights and biases, output layer last; only the first output is a value to scale.
            present: whether each hidden layer exists in each function, [functions] each; all or none of them do.
            x_center, x_scale: [functions, d].
            y_center, y_scale: [functions].
        """
        kept = [layer for layer, there in zip(layers[:-1], present, strict=True) if np.all(there)]
        if len(kept) != sum(bool(np.any(there)) for there in present):
            raise ValueError("functions of different depths cannot be stacked")
        plain = [(w.astype(np.float64), b.astype(np.float64)) for w, b in (*kept, layers[-1])]
        weight, bias = plain[0]
        weight = weight / x_scale[:, :, None]
        plain[0] = weight, bias - np.einsum("sd,sdu->su", x_center, weight)
        weight, bias = (a.copy() for a in plain[-1])
        weight[..., 0] *= y_scale[:, None]
        bias[..., 0] = bias[..., 0] * y_scale + y_center
        plain[-1] = weight, bias
        return Functions(tuple(w for w, _ in plain), tuple(b for _, b in plain), activation)

    @property
    def count(self) -> int:
        return len(self.biases[0])

    @property
    def outputs(self) -> int:
        return self.biases[-1].shape[1]

    def some(self, which: Sequence[int] | np.ndarray) -> "Functions":
        """Some of the functions, in this order."""
        index = np.asarray(which)
        return replace(self, weights=tuple(w[index] for w in self.weights), biases=tuple(b[index] for b in self.biases))

    def values(self, x: np.ndarray) -> np.ndarray:
        """Every function at every point [n, d], [functions, n, outputs]."""
        if len(x) > ROWS:
            return np.concatenate([self.values(x[i : i + ROWS]) for i in range(0, len(x), ROWS)], axis=1)
        h = x[None]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            h = VALUE_AND_SLOPE[self.activation](h @ weight + bias[:, None])[0]
        return h @ self.weights[-1] + self.biases[-1][:, None]

    def values_and_gradients(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First output and its derivatives in x, [functions, n] and [functions, n, d]."""
        h, slopes = x[None], []
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            h, slope = VALUE_AND_SLOPE[self.activation](h @ weight + bias[:, None])
            slopes.append(slope)
        value = (h @ self.weights[-1] + self.biases[-1][:, None])[..., 0]
        back = np.broadcast_to(self.weights[-1][:, None, :, 0], h.shape)
        for weight, slope in zip(self.weights[-2::-1], slopes[::-1], strict=True):
            back = (back * slope) @ weight.transpose(0, 2, 1)
        return value, back

    def arrays(self) -> dict[str, np.ndarray]:
        """Weights and biases by name."""
        weights = {f"weight{i}": w for i, w in enumerate(self.weights)}
        return weights | {f"bias{i}": b for i, b in enumerate(self.biases)}

    @staticmethod
    def from_arrays(arrays: dict[str, np.ndarray], activation: str) -> "Functions":
        """What `arrays` gave."""
        layers = range(sum(name.startswith("weight") for name in arrays))
        weights, biases = (tuple(arrays[f"{name}{i}"] for i in layers) for name in ("weight", "bias"))
        return Functions(weights, biases, activation)
