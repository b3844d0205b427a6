"""Which units of a variational network do something, and networks without the others (S4, 5.3)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from presage.networks.mlp import Array, Shape
from presage.networks.programs import Networks, start, unraveller
from presage.networks.training import Cohort
from presage.networks.variational import Layer, Variational


@partial(jax.jit, static_argnames=("family", "shape"))
def unit_activity(family: Variational, shape: Shape, networks: Networks, params: Array) -> Array:
    """Mean KL of the weights into each hidden unit of each network, [networks, depth, width]."""
    unravel = unraveller(family, shape)
    return jax.vmap(lambda n, p: family.activity(unravel(p), n.widths, n.options, shape))(networks, params)


def active_units(cohort: Cohort, first: float = 0.3, others: float = 0.1) -> np.ndarray:
    """Hidden units whose mean incoming KL is above a threshold, [networks, depth]; the thresholds are S4's."""
    activity = unit_activity(cohort.family, cohort.shape, cohort.networks, cohort.state.params)
    threshold = np.array([first, *[others] * (cohort.shape.depth - 1)])
    return (np.asarray(activity) > threshold[:, None]).sum(axis=2)


def pruned(cohort: Cohort, first: float = 0.3, others: float = 0.1) -> Cohort:
    """The networks with their active units only, at least one per layer, in a shape as small as that allows.

    What an inactive unit sends on, the mean of its weights times its activation, is nearly nothing and is dropped.
    """
    activity = np.asarray(unit_activity(cohort.family, cohort.shape, cohort.networks, cohort.state.params))
    threshold = np.array([first, *[others] * (cohort.shape.depth - 1)])[:, None]
    keep = activity > threshold
    old = np.asarray(cohort.networks.widths)
    for network, layer in zip(*np.nonzero(~keep.any(axis=2) & (old > 0)), strict=True):
        keep[network, layer, activity[network, layer].argmax()] = True
    keep &= np.arange(cohort.shape.width) < old[:, :, None]
    widths = keep.sum(axis=2).astype(np.int32)
    shape = cohort.shape._replace(width=int(widths.max()))
    take = jax.vmap(unraveller(cohort.family, cohort.shape))(cohort.state.params)
    # Active units first, in their order; the others fall off or are masked.
    order = np.argsort(~keep, axis=2, kind="stable")[:, :, : shape.width]
    count = np.arange(len(old))[:, None]
    source = np.broadcast_to(np.arange(shape.inputs), (len(old), shape.inputs))
    layers = []
    for number, layer in enumerate(take.layers):
        last = number == len(take.layers) - 1
        target = np.broadcast_to(np.arange(shape.outputs), (len(old), shape.outputs)) if last else order[:, number]
        weights = [np.asarray(a)[count[:, :, None], source[:, :, None], target[:, None]] for a in layer[:2]]
        biases = [np.asarray(a)[count, target] for a in layer[2:]]
        layers.append(Layer(weights[0], weights[1], biases[0], biases[1]))
        if not last:
            source = np.where(old[:, number, None] > 0, target, source[:, : shape.width]) if number else target
    params = jax.vmap(lambda p: ravel_pytree(p)[0])(take._replace(layers=layers))
    networks = cohort.networks._replace(widths=jnp.asarray(widths))
    fresh = start(cohort.family, cohort.training, shape, networks)
    state = fresh._replace(params=params, step=cohort.state.step, loss=cohort.state.loss)
    return Cohort(cohort.family, cohort.training, shape, networks, cohort.table, state)
