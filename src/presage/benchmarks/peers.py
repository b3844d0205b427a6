"""Other optimisers behind two calls, ask and tell, one evaluation at a time.

This file imports nothing of presage: it also runs as a program in an interpreter that has the peer and not presage,
where it answers lines of JSON (see `serve`). Each library is imported when its optimiser is made. A space comes as
`presage.Space.to_json` writes it. Where a library knows no conditions, it searches all axes and those that do not
exist under the others are left out of the params.
"""

import importlib.metadata
import json
import random
import sys
import tempfile
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

Axis = dict[str, Any]
Params = dict[str, Any]


class Task:
    """What a peer is told: the axes of a space by name, the budget, the seed."""

    def __init__(self, space: dict[str, Any], trials: int, seed: int) -> None:
        self.axes: dict[str, Axis] = {name: dict(axis) for name, axis in space["dimensions"]}
        for axis in self.axes.values():
            if isinstance(axis.get("options"), dict):  # how a tuple is written
                axis["options"] = axis["options"]["tuple"]
        self.trials, self.seed = trials, seed

    def exists(self, name: str, params: Params) -> bool:
        """Whether an axis exists under the values of earlier ones."""
        when = self.axes[name].get("when") or {}
        return all(parent in params and params[parent] in values for parent, values in when.items())

    def existing(self, full: Params) -> Params:
        """The params without axes that do not exist."""
        params: Params = {}
        for name in self.axes:
            if self.exists(name, params):
                params[name] = plain(full[name])
        return params

    @property
    def dim(self) -> int:
        return len(self.axes)

    @property
    def continuous(self) -> bool:
        """Whether every axis is a real interval that always exists."""
        return all(axis["type"] == "Float" and "when" not in axis for axis in self.axes.values())


def plain(value: Any) -> Any:
    """A NumPy scalar as a Python value."""
    return value.item() if isinstance(value, np.generic) else value


class Peer(ABC):
    """An optimiser that is asked and told in turn."""

    packages: tuple[str, ...] = ()

    def __init__(self, task: Task) -> None:
        self.task = task

    @abstractmethod
    def ask(self) -> Params:
        """The next params to try."""

    @abstractmethod
    def tell(self, value: float) -> None:
        """The value of the params asked for last."""

    def give(self, points: list[Params], values: list[float]) -> None:
        """Values of points that were not asked for; where a library has no way to take them, it asks for its own."""
        for value in values:
            self.ask()
            self.tell(value)


class Cube:
    """The unit cube for libraries that want one: a column per number, one per option of a choice."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.columns: list[tuple[str, int]] = []
        for name, axis in task.axes.items():
            count = len(axis["options"]) if axis["type"] == "Choice" else 1
            self.columns += [(name, i) for i in range(count)]
        self.dim = len(self.columns)

    def decode(self, point: np.ndarray) -> Params:
        """The params nearest to a point; of a choice, the option whose column is largest."""
        cells: dict[str, list[float]] = {}
        for (name, _), value in zip(self.columns, point, strict=True):
            cells.setdefault(name, []).append(float(value))
        return self.task.existing({name: _value(axis, cells[name]) for name, axis in self.task.axes.items()})

    def encode(self, params: Params) -> np.ndarray:
        """The point of some params; axes that do not exist lie in the middle."""
        return np.array([
            0.5 if name not in params else _place(self.task.axes[name], i, params[name]) for name, i in self.columns
        ])  # fmt: skip


def _ends(axis: Axis) -> tuple[float, float]:
    low, high = axis["low"], axis["high"]
    if axis["type"] == "Int":
        low, high = low - 0.5, high + 0.5
    return (float(np.log(low)), float(np.log(high))) if axis.get("log") else (float(low), float(high))


def _value(axis: Axis, cells: list[float]) -> Any:
    if axis["type"] == "Choice":
        return axis["options"][int(np.argmax(cells))]
    low, high = _ends(axis)
    value = low + min(max(cells[0], 0.0), 1.0) * (high - low)
    if axis.get("log"):
        value = float(np.exp(value))
    value = min(max(value, axis["low"]), axis["high"])
    return round(value) if axis["type"] == "Int" else value


def _place(axis: Axis, option: int, value: Any) -> float:
    if axis["type"] == "Choice":
        return float(axis["options"][option] == value)
    low, high = _ends(axis)
    return ((float(np.log(value)) if axis.get("log") else value) - low) / (high - low)


class Cmaes(Peer):
    """cmaes from the middle of the cube with a third of its side, its own population size."""

    packages = ("cmaes",)

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        from cmaes import CMA

        self.cube = Cube(task)
        bounds = np.array([[0.0, 1.0]] * self.cube.dim)
        dim = self.cube.dim
        if dim == 1:  # the library wants two dimensions at least; the second is ignored
            bounds, dim = np.array([[0.0, 1.0]] * 2), 2
        self.optimizer = CMA(mean=np.full(dim, 0.5), sigma=0.3, bounds=bounds, seed=task.seed + 1)
        self.told: list[tuple[np.ndarray, float]] = []

    def ask(self) -> Params:
        self.point = self.optimizer.ask()
        return self.cube.decode(self.point[: self.cube.dim])

    def tell(self, value: float) -> None:
        self.told.append((self.point, value))
        if len(self.told) == self.optimizer.population_size:
            self.optimizer.tell(self.told)
            self.told = []


class Optuna(Peer):
    """Optuna with one of its samplers; conditions are native."""

    packages: tuple[str, ...] = ("optuna",)

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.study = optuna.create_study(sampler=self.sampler(optuna.samplers, task.seed))

    def sampler(self, samplers: Any, seed: int) -> Any:
        return samplers.TPESampler(seed=seed)

    def ask(self) -> Params:
        self.trial = self.study.ask()
        params: Params = {}
        for name, axis in self.task.axes.items():
            if not self.task.exists(name, params):
                continue
            if axis["type"] == "Choice":
                params[name] = self.trial.suggest_categorical(name, axis["options"])
            else:
                suggest = self.trial.suggest_int if axis["type"] == "Int" else self.trial.suggest_float
                params[name] = suggest(name, axis["low"], axis["high"], log=bool(axis.get("log")))
        return params

    def tell(self, value: float) -> None:
        self.study.tell(self.trial, value)

    def give(self, points: list[Params], values: list[float]) -> None:
        import optuna

        of = {"Choice": "CategoricalDistribution", "Int": "IntDistribution", "Float": "FloatDistribution"}
        made: dict[str, Any] = {}
        for name, axis in self.task.axes.items():
            kind = getattr(optuna.distributions, of[axis["type"]])
            ends = {"low": axis["low"], "high": axis["high"], "log": bool(axis.get("log"))} if "low" in axis else {}
            made[name] = kind(**ends) if ends else kind(axis["options"])
        self.study.add_trials([
            optuna.trial.create_trial(params=p, distributions={n: made[n] for n in p}, value=v)
            for p, v in zip(points, values, strict=True)
        ])  # fmt: skip


class OptunaGP(Optuna):
    """Optuna's Gaussian process at its defaults."""

    packages = ("optuna", "torch")

    def sampler(self, samplers: Any, seed: int) -> Any:
        return samplers.GPSampler(seed=seed)


class OptunaExactGP(Optuna):
    """Optuna's Gaussian process told that values have no noise."""

    packages = ("optuna", "torch")

    def sampler(self, samplers: Any, seed: int) -> Any:
        return samplers.GPSampler(seed=seed, deterministic_objective=True)


class BoTorch(Peer):
    """BoTorch as its tutorials use it: SingleTaskGP, LogEI, 10 starts of 512 raw samples; whole numbers are rounded."""

    packages = ("botorch", "gpytorch", "torch")

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(task.seed)
        self.cube = Cube(task)
        self.x = np.empty((0, self.cube.dim))
        self.y: list[float] = []
        engine = torch.quasirandom.SobolEngine(self.cube.dim, scramble=True, seed=task.seed)
        # BoTorch leaves the initial design to the user; here it is as large as presage's, choices by their columns.
        self.design = list(engine.draw(min(self.cube.dim + 3, 10)).double().numpy())

    def ask(self) -> Params:
        point = self.design.pop(0) if self.design else self.suggest()
        params = self.cube.decode(point)
        self.x = np.vstack([self.x, self.cube.encode(params)])
        return params

    def suggest(self) -> np.ndarray:
        import torch
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import ExactMarginalLogLikelihood

        x, y = torch.as_tensor(self.x), -torch.as_tensor(self.y, dtype=torch.double)[:, None]
        bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, self.cube.dim)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SingleTaskGP(x, y)
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            found, _ = optimize_acqf(self.acquisition(model, x, y), bounds, q=1, num_restarts=10, raw_samples=512)
        return found.numpy()[0]

    def acquisition(self, model: Any, x: Any, y: Any) -> Any:
        from botorch.acquisition import LogExpectedImprovement

        return LogExpectedImprovement(model, best_f=y.max())

    def tell(self, value: float) -> None:
        self.y.append(value)

    def give(self, points: list[Params], values: list[float]) -> None:
        self.x, self.y, self.design = np.array([self.cube.encode(point) for point in points]), list(values), []


class BoTorchNoisy(BoTorch):
    """BoTorch with noisy LogEI, as its documentation advises."""

    def acquisition(self, model: Any, x: Any, y: Any) -> Any:
        from botorch.acquisition.logei import qLogNoisyExpectedImprovement

        return qLogNoisyExpectedImprovement(model, X_baseline=x, prune_baseline=True)


class Ax(Peer):
    """Ax's client at its defaults."""

    packages = ("ax-platform", "botorch", "torch")

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        import logging

        logging.disable(logging.WARNING)
        import torch
        from ax.api.client import Client
        from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

        torch.set_num_threads(1)
        torch.manual_seed(task.seed)
        axes: list[Any] = []
        for name, axis in task.axes.items():
            if axis["type"] == "Choice":
                kind = "str" if isinstance(axis["options"][0], str) else "float"
                axes.append(
                    ChoiceParameterConfig(name=name, values=axis["options"], parameter_type=kind, is_ordered=False)
                )
            else:
                kind = "int" if axis["type"] == "Int" else "float"
                scaling = "log" if axis.get("log") else "linear"
                axes.append(
                    RangeParameterConfig(
                        name=name, bounds=(axis["low"], axis["high"]), parameter_type=kind, scaling=scaling
                    )
                )
        self.client = Client(random_seed=task.seed)
        self.client.configure_experiment(parameters=axes)
        self.client.configure_optimization(objective="-value")

    def ask(self) -> Params:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.index, full = next(iter(self.client.get_next_trials(max_trials=1).items()))
        return self.task.existing(full)

    def tell(self, value: float) -> None:
        self.client.complete_trial(trial_index=self.index, raw_data={"value": value})

    def give(self, points: list[Params], values: list[float]) -> None:
        for point, value in zip(points, values, strict=True):
            index = self.client.attach_trial(parameters=point)
            self.client.complete_trial(trial_index=index, raw_data={"value": value})


class Hebo(Peer):
    """HEBO at its defaults."""

    packages = ("HEBO", "torch", "gpytorch")

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        import torch
        from hebo.design_space.design_space import DesignSpace
        from hebo.optimizers.hebo import HEBO

        torch.set_num_threads(1)
        np.random.seed(task.seed)  # noqa: NPY002  HEBO draws from the global generators
        random.seed(task.seed)
        torch.manual_seed(task.seed)
        axes: list[dict[str, Any]] = []
        for name, axis in task.axes.items():
            if axis["type"] == "Choice":
                axes.append({"name": name, "type": "cat", "categories": axis["options"]})
            else:
                kinds = {
                    ("Float", False): "num",
                    ("Float", True): "pow",
                    ("Int", False): "int",
                    ("Int", True): "pow_int",
                }
                kind = kinds[axis["type"], bool(axis.get("log"))]
                axes.append({"name": name, "type": kind, "lb": axis["low"], "ub": axis["high"]})
        self.optimizer = HEBO(DesignSpace().parse(axes), scramble_seed=task.seed)

    def ask(self) -> Params:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.asked = self.optimizer.suggest(n_suggestions=1)
        row = self.asked.iloc[0].to_dict()
        full = {name: int(v) if self.task.axes[name]["type"] == "Int" else v for name, v in row.items()}
        return self.task.existing(full)

    def tell(self, value: float) -> None:
        self.optimizer.observe(self.asked, np.array([[value]]))

    def give(self, points: list[Params], values: list[float]) -> None:
        import pandas

        self.optimizer.observe(pandas.DataFrame(points), np.array(values)[:, None])


class Smac(Peer):
    """SMAC3 by the facade that its documentation advises: Gaussian processes on intervals, forests elsewhere."""

    packages = ("smac", "ConfigSpace")

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        import logging

        import ConfigSpace
        from smac import BlackBoxFacade, HyperparameterOptimizationFacade, Scenario

        logging.disable(logging.WARNING)
        made: dict[str, Any] = {}
        space = ConfigSpace.ConfigurationSpace(seed=task.seed)
        for name, axis in task.axes.items():
            if axis["type"] == "Choice":
                made[name] = ConfigSpace.CategoricalHyperparameter(name, axis["options"])
            else:
                kind = ConfigSpace.UniformIntegerHyperparameter
                if axis["type"] == "Float":
                    kind = ConfigSpace.UniformFloatHyperparameter
                made[name] = kind(name, axis["low"], axis["high"], log=bool(axis.get("log")))
            space.add(made[name])
        for name, axis in task.axes.items():
            conditions = [
                ConfigSpace.InCondition(made[name], made[parent], values)
                for parent, values in (axis.get("when") or {}).items()
            ]
            if conditions:
                space.add(conditions[0] if len(conditions) == 1 else ConfigSpace.AndConjunction(*conditions))
        self.folder = tempfile.TemporaryDirectory()
        scenario = Scenario(
            space, deterministic=True, n_trials=task.trials, seed=task.seed, output_directory=self.folder.name
        )
        facade = BlackBoxFacade if task.continuous else HyperparameterOptimizationFacade
        self.smac = facade(scenario, lambda config, seed=0: 0.0, overwrite=True, logging_level=False)

    def ask(self) -> Params:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.info = self.smac.ask()
        config = dict(self.info.config)
        return {name: plain(config[name]) for name in self.task.axes if name in config}

    def tell(self, value: float) -> None:
        from smac.runhistory.dataclasses import TrialValue

        self.smac.tell(self.info, TrialValue(cost=value))

    def give(self, points: list[Params], values: list[float]) -> None:
        from ConfigSpace import Configuration
        from smac.runhistory.dataclasses import TrialInfo, TrialValue

        space = self.smac.scenario.configspace
        for point, value in zip(points, values, strict=True):
            self.smac.tell(TrialInfo(Configuration(space, values=point), seed=0), TrialValue(cost=value))


class Skopt(Peer):
    """scikit-optimize's Optimizer at its defaults."""

    packages = ("scikit-optimize", "scikit-learn")

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        import skopt

        axes: list[Any] = []
        for axis in task.axes.values():
            if axis["type"] == "Choice":
                axes.append(skopt.space.Categorical(axis["options"]))
            else:
                kind = skopt.space.Integer if axis["type"] == "Int" else skopt.space.Real
                axes.append(kind(axis["low"], axis["high"], prior="log-uniform" if axis.get("log") else "uniform"))
        self.optimizer = skopt.Optimizer(axes, random_state=task.seed)
        self.untold: tuple[list[Any], float] | None = None

    def ask(self) -> Params:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.untold is not None:  # the library fits when it is told, which is part of what a suggestion takes
                self.optimizer.tell(*self.untold)
                self.untold = None
            self.point = self.optimizer.ask()
        return self.task.existing(dict(zip(self.task.axes, self.point, strict=True)))

    def tell(self, value: float) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.optimizer.tell(self.point, value)

    def give(self, points: list[Params], values: list[float]) -> None:
        rows = [[point[name] for name in self.task.axes] for point in points]
        self.optimizer.tell(rows[:-1], values[:-1], fit=False)
        self.untold = rows[-1], values[-1]


class Nevergrad(Peer):
    """Nevergrad's NGOpt, which chooses by space and budget; conditions by nothing."""

    packages = ("nevergrad",)

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        import nevergrad as ng

        axes: dict[str, Any] = {}
        for name, axis in task.axes.items():
            if axis["type"] == "Choice":
                axes[name] = ng.p.Choice(axis["options"])
            elif axis.get("log"):
                axes[name] = ng.p.Log(lower=axis["low"], upper=axis["high"])
            else:
                axes[name] = ng.p.Scalar(lower=axis["low"], upper=axis["high"])
            if axis["type"] == "Int":
                axes[name].set_integer_casting()
        space = ng.p.Dict(**axes)
        space.random_state.seed(task.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.optimizer = ng.optimizers.NGOpt(parametrization=space, budget=task.trials, num_workers=1)

    def ask(self) -> Params:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.asked = self.optimizer.ask()
        return self.task.existing(self.asked.value)

    def tell(self, value: float) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.optimizer.tell(self.asked, value)


class PyGPGO(Peer):
    """pyGPGO by the rules of its thesis: squared exponential, all its hyperparameters refitted at every step, EI.

    Axes in their own units, logarithmic ones as exponents of ten. Where its factorisation fails, which ends a run of
    the package, a point is drawn at random instead.
    """

    packages = ("pyGPGO",)
    acquisition: tuple[str, dict[str, float]] = ("ExpectedImprovement", {})

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        from pyGPGO.acquisition import Acquisition
        from pyGPGO.covfunc import squaredExponential
        from pyGPGO.GPGO import GPGO
        from pyGPGO.surrogates.GaussianProcess import GaussianProcess

        np.random.seed(task.seed)  # noqa: NPY002  the package draws from the global generator
        axes: dict[str, Any] = {}
        for name, axis in task.axes.items():
            if axis["type"] == "Choice":
                raise ValueError(f"pyGPGO knows numbers only, and {name} is a choice")
            kind = "int" if axis["type"] == "Int" and not axis.get("log") else "cont"
            axes[name] = (kind, [np.log10(axis[end]) if axis.get("log") else axis[end] for end in ("low", "high")])
        mode, constants = self.acquisition
        process = GaussianProcess(squaredExponential(), optimize=True, usegrads=True)
        self.search = GPGO(process, Acquisition(mode=mode, **constants), None, axes)
        self.x: list[np.ndarray] = []
        self.y: list[float] = []

    def ask(self) -> Params:
        search, point = self.search, None
        if len(self.x) >= 3:
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    # Equal rows would make its matrix singular ever after, and each point a random one.
                    x, first = np.unique(np.array(self.x), axis=0, return_index=True)
                    search.GP.fit(x, -np.array(self.y)[first])
                    search.tau = -min(self.y)
                    search._optimizeAcq()
                point = search.best if np.isfinite(search.best).all() else None
            except (np.linalg.LinAlgError, ValueError):  # points too near each other, or a matrix that is not finite
                point = None
        if point is None:
            point = np.array(list(search._sampleParam().values()), dtype=float)
        self.x.append(point)
        full: Params = {}
        for (name, axis), value in zip(self.task.axes.items(), point, strict=True):
            own = min(max(10.0**value if axis.get("log") else float(value), axis["low"]), axis["high"])
            full[name] = round(own) if axis["type"] == "Int" else own
        return self.task.existing(full)

    def tell(self, value: float) -> None:
        self.y.append(value)

    def give(self, points: list[Params], values: list[float]) -> None:
        axes = self.task.axes.items()
        self.x = [np.array([np.log10(p[n]) if axis.get("log") else p[n] for n, axis in axes], float) for p in points]
        self.y = list(values)


class PyGPGOLow(PyGPGO):
    """pyGPGO with its upper confidence bound of half a standard deviation."""

    acquisition = ("UCB", {"beta": 0.5})


class PyGPGOHigh(PyGPGO):
    """pyGPGO with its upper confidence bound of one and a half standard deviations."""

    acquisition = ("UCB", {"beta": 1.5})


PEERS: dict[str, type[Peer]] = {
    "cmaes": Cmaes, "optuna-tpe": Optuna, "optuna-gp": OptunaGP, "optuna-gp-exact": OptunaExactGP, "botorch": BoTorch,
    "botorch-noisy": BoTorchNoisy, "ax": Ax, "hebo": Hebo, "smac": Smac, "skopt": Skopt, "nevergrad": Nevergrad,
    "pygpgo": PyGPGO, "pygpgo-ucb0.5": PyGPGOLow, "pygpgo-ucb1.5": PyGPGOHigh,
}  # fmt: skip


_WARM: set[str] = set()


def make(method: str, space: dict[str, Any], trials: int, seed: int) -> Peer:
    """A peer ready to be asked; the first one of its kind in a process has made a small search before.

    Libraries import and compile when first used, which is not what a suggestion takes.
    """
    if method not in _WARM:
        small = {"dimensions": [["x", {"type": "Float", "low": 0.0, "high": 1.0}]]}
        peer, slow = PEERS[method](Task(small, 12, 0)), 0
        for _ in range(12):
            began = time.perf_counter()
            peer.tell((peer.ask()["x"] - 0.3) ** 2)
            slow += time.perf_counter() - began > 0.05
            if slow == 2:  # the initial design is over
                break
        _WARM.add(method)
    return PEERS[method](Task(space, trials, seed))


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """The versions of some packages, of Python and of NumPy."""
    found = {"python": sys.version.split()[0], "numpy": np.__version__}
    return found | {package: importlib.metadata.version(package) for package in packages}


def cold(method: str, space: dict[str, Any], trials: int, seed: int) -> Peer:
    """A peer as a new process has it: nothing was asked before."""
    return PEERS[method](Task(space, trials, seed))


def serve(cold: Callable[[str, dict[str, Any], int, int], Peer] = cold) -> None:
    """Answer lines of JSON: {"start": [method, space, trials, seed]}, {"ask": 0}, {"tell": value}.

    And, to measure what a suggestion takes: {"cold": ...}, a start without a small search before it, and
    {"give": [points, values]}. Answers are {"versions": ...}, {"params": ..., "seconds": ...}, {"seconds": ...} or
    {"error": ..., "missing": ...}. What libraries print goes to standard error.
    """
    answers, sys.stdout = sys.stdout, sys.stderr
    peer: Peer | None = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any] = {}
        began = time.perf_counter()
        try:
            if "start" in request:
                method, space, trials, seed = request["start"]
                peer = make(method, space, trials, seed)
                answer["versions"] = versions(PEERS[method].packages)
            elif "cold" in request:
                peer = cold(*request["cold"])
                answer["versions"] = versions(peer.packages)
            elif "give" in request:
                assert peer is not None, "start comes first"
                peer.give(*request["give"])
            elif "ask" in request:
                assert peer is not None, "start comes first"
                answer["params"] = peer.ask()
            else:
                assert peer is not None, "start comes first"
                peer.tell(request["tell"])
            answer["seconds"] = time.perf_counter() - began
        except Exception as error:  # noqa: BLE001  whatever a library raises is told to the other side
            answer = {"error": f"{type(error).__name__}: {error}", "missing": getattr(error, "name", None)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve()
