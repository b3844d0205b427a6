"""Optuna's distributions and presage's dimensions, each as the other."""

import warnings
from collections.abc import Mapping
from typing import Any

from presage.dimensions import Choice, Constant, Dimension, Float, Int, json_key
from presage.errors import SpaceError
from presage.integrations import require
from presage.space import Space

require("optuna", "optuna")

from optuna.distributions import (  # noqa: E402
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

Distributions = Mapping[str, BaseDistribution]


def dimension_of(distribution: BaseDistribution) -> Dimension:
    """The dimension with the same values on the same scale; SpaceError where presage has none.

    Example:
        >>> dimension_of(IntDistribution(16, 64, step=16))
        Int(16, 64, step=16)
    """
    match distribution:
        case CategoricalDistribution(choices=choices):
            return Constant(choices[0]) if len(choices) == 1 else Choice(choices)
        case FloatDistribution() | IntDistribution() if distribution.single():
            return Constant(distribution.low)
        case FloatDistribution(low=low, high=high, log=log, step=step):
            return Float(low, high, log=log, step=step)
        case IntDistribution(low=low, high=high, log=log, step=step):
            return Int(low, high, log=log, step=step)
    raise SpaceError(f"a distribution must be a float's, an int's or a categorical one, but got {distribution!r}")


def distribution_of(dimension: Dimension) -> BaseDistribution:
    """The distribution with the same values on the same scale.

    Example:
        >>> distribution_of(Float(1e-4, 1.0, log=True))
        FloatDistribution(high=1.0, log=True, low=0.0001, step=None)
    """
    match dimension:
        case Float(low=low, high=high, log=log, step=step):
            # With a step, the largest value that can be reached: Optuna would warn of any other.
            return FloatDistribution(low, high if step is None else dimension.decode(1.0), log=log, step=step)
        case Int(low=low, log=log, step=step):
            return IntDistribution(low, dimension.decode(1.0), log=log, step=step)
        case Choice(options=options):
            return _categorical(options)
        case Constant(value=value):
            return _categorical([value])
    raise SpaceError(f"Optuna has no distribution for {dimension!r}")


def stored(value: Any) -> Any:
    """What Optuna's storages keep for an option: itself, and JSON for lists.

    Example:
        >>> [stored(value) for value in ("relu", None, (1, 2))]
        ['relu', None, '[1, 2]']
    """
    return value if value is None or isinstance(value, str | int | float) else json_key(value, "an option")


def stored_distribution_of(dimension: Dimension) -> BaseDistribution:
    """As `distribution_of`, with options as storages keep them."""
    match dimension:
        case Choice(options=options):
            return CategoricalDistribution([stored(option) for option in options])
        case Constant(value=value):
            return CategoricalDistribution([stored(value)])
    return distribution_of(dimension)


def _categorical(options: Any) -> BaseDistribution:
    with (
        warnings.catch_warnings()
    ):  # lists are kept by Optuna's storages too; that they are discouraged changes nothing
        warnings.simplefilter("ignore")
        return CategoricalDistribution(options)


def distributions_of(space: Space) -> dict[str, BaseDistribution]:
    """The distributions of all dimensions, conditional ones included."""
    return {name: distribution_of(dimension) for name, dimension in space.items()}


def searched(space: Space | Mapping[str, Dimension | BaseDistribution]) -> Space:
    """The space that a sampler is given: as it is, of presage's dimensions, or of Optuna's distributions.

    Example:
        >>> searched({"x": Float(0, 1), "n": IntDistribution(1, 3)})
        Space({'x': Float(0.0, 1.0), 'n': Int(1, 3)})
    """
    if isinstance(space, Space):
        return space
    rule = "space must be a presage.Space, or a dictionary of presage's dimensions or Optuna's distributions"
    if not isinstance(space, Mapping):
        raise SpaceError(f"{rule}, but got {space!r}")
    found: dict[str, Dimension] = {}
    for name, axis in space.items():
        if not isinstance(axis, Dimension | BaseDistribution):
            raise SpaceError(f"{rule}, but got {axis!r} for {name!r}")
        found |= {name: axis} if isinstance(axis, Dimension) else expressible({name: axis})
    if not found and space:
        raise SpaceError(f"space must have a distribution that varies, and that presage has, but got {dict(space)}")
    return Space(found)


def expressible(distributions: Distributions) -> dict[str, Dimension]:
    """The dimensions that vary and that presage has, in the order given."""
    found: dict[str, Dimension] = {}
    for name, distribution in distributions.items():
        try:
            dimension = dimension_of(distribution)
        except SpaceError:  # NaN among the choices, whole numbers beyond 2**44: drawn at random by whoever asks
            continue
        if name and not isinstance(dimension, Constant):
            found[name] = dimension
    return found
