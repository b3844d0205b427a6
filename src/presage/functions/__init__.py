"""Test functions with their spaces and their global minima, all of them to be minimised.

NumPy only: worker processes import this module.
"""

from presage.functions.fixed import (
    branin,
    forrester,
    gaussian_mixture,
    hartmann3,
    hartmann4,
    hartmann6,
    mccormick,
    sinusoid,
    six_hump_camel,
)
from presage.functions.function import Formula, Function
from presage.functions.path import gp_path
from presage.functions.scalable import ackley, griewank, levy, michalewicz, rosenbrock, styblinski_tang

FUNCTIONS: tuple[Function, ...] = (
    forrester,
    sinusoid,
    gp_path,
    branin,
    rosenbrock,
    mccormick,
    six_hump_camel,
    gaussian_mixture,
    hartmann3,
    hartmann4,
    hartmann6,
    ackley,
    levy,
    griewank,
    styblinski_tang,
    michalewicz,
)

__all__ = [
    "FUNCTIONS",
    "Formula",
    "Function",
    "forrester",
    "sinusoid",
    "gp_path",
    "branin",
    "rosenbrock",
    "mccormick",
    "six_hump_camel",
    "gaussian_mixture",
    "hartmann3",
    "hartmann4",
    "hartmann6",
    "ackley",
    "levy",
    "griewank",
    "styblinski_tang",
    "michalewicz",
]
