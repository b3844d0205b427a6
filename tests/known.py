"""A posterior whose law is given in closed form, as truth for what is derived from posteriors."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from presage.surrogates.base import Draws, Marginal, Posterior


@dataclass(frozen=True)
class Known(Posterior):
    """Independent values T(f(x)) ~ N(mean(x), stddev(x)^2), or a mixture over components; T = arcsinh or nothing.

    Attributes:
        means: one function of points [n, d] per component.
        stddevs: the same for standard deviations.
        bent: whether values are transformed.
        df: degrees of freedom of Student-t components.
    """

    means: tuple[Callable[[np.ndarray], np.ndarray], ...]
    stddevs: tuple[Callable[[np.ndarray], np.ndarray], ...]
    bent: bool = False
    df: float | None = None
    noise_variance: float = 0.0
    differentiable: bool = field(default=False)

    def marginal(self, x):
        mean, scale = (np.array([f(x) for f in many]) for many in (self.means, self.stddevs))
        count = len(mean)
        df = None if self.df is None else np.full(count, self.df)
        return Marginal(mean, scale**2, np.full(count, 1.0 / count), df)

    def marginal_gradient(self, x):
        raise NotImplementedError

    def transformed(self, y):
        if not self.bent:
            return super().transformed(y)
        return np.arcsinh(y)[None], -0.5 * np.log1p(y * y)[None]

    def predict(self, x):
        draws = self.sample(x, 4000, rng=np.random.default_rng(0))
        draws = np.sinh(draws) if self.bent else draws
        return draws.mean(axis=0), draws.var(axis=0)

    def sample(self, x, num, *, rng):
        law = self.marginal(x)
        which = np.arange(num) % len(law.mean)
        return law.mean[which] + np.sqrt(law.variance[which]) * rng.standard_normal((num, len(x)))

    def draw(self, num, *, rng):
        """Functions of the form mean(x) + z stddev(x), with one z for each function."""
        posterior, z = self, rng.standard_normal(num)

        class Lines(Draws):
            def values(self, x):
                law = posterior.marginal(x)
                return law.mean[0] + z[:, None] * np.sqrt(law.variance[0])

            def values_and_gradients(self, x):
                raise NotImplementedError

        return Lines()

    def noise(self, x):
        return np.full(len(x), self.noise_variance)

    def condition(self, x, y):
        raise NotImplementedError

    def leave_one_out(self):
        raise NotImplementedError

    def incumbent(self):
        return 0.0
