"""Models of training curves, behind one protocol."""

from presage.design.curves.base import CurveFit, CurveModel, CurvePosterior, Curves, Squash, moments_of
from presage.design.curves.gpar import GPAR
from presage.design.curves.kronecker import FreezeThaw, KroneckerModel, LatentKronecker
from presage.design.curves.power_law import PowerLawEnsemble

__all__ = [
    "CurveFit", "CurveModel", "CurvePosterior", "Curves", "FreezeThaw", "GPAR", "KroneckerModel", "LatentKronecker",
    "PowerLawEnsemble", "Squash", "moments_of",
]  # fmt: skip
