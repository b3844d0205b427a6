"""How many threads linear algebra may use, and how many cores there are."""

import functools
import os
from contextlib import AbstractContextManager

import threadpoolctl


@functools.cache
def _blas() -> threadpoolctl.ThreadpoolController:
    import scipy.linalg.lapack  # noqa: F401  loads SciPy's BLAS, so that the controller can see it

    return threadpoolctl.ThreadpoolController().select(user_api="blas")


def few_threads(count: int = 1) -> AbstractContextManager:
    """Limit BLAS to a few threads inside the block.

    The cores belong to the user's work. While they are busy, OpenBLAS with its default threads spins at every
    synchronisation and takes ten to thirty times as long on matrices of the size a study has.
    """
    return _blas().limit(limits=count)


def usable_cores() -> int:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
