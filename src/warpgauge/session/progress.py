"""Progress: uncertainty over the targets, its curve over the annotations, and the stop rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpgauge.core.gains import entropy_constant
from warpgauge.core.linalg import log_determinants
from warpgauge.core.process import Posterior
from warpgauge.geometry import Floats
from warpgauge.project import Settings

CURVE_TARGETS = 300


@dataclass(frozen=True)
class StopRule:
    """A rule of the settings: its limit, where it stands, whether it is met, and that in a sentence."""

    name: str
    limit: float
    value: float | None
    met: bool
    sentence: str

    @property
    def plain(self) -> str:
        """That the rule ended the work, without numbers that rest on answers which a blind rater must not know of."""
        if self.name == "budget":
            return self.sentence
        return f"The project's stop rule {self.name!r} ({self.limit:.3g}) is met."


@dataclass(frozen=True, eq=False)
class Curve:
    """Uncertainty after the first 0, 1, ... annotations, in the order of the list, under the present model.

    Attributes
    ----------
    annotations : (L + 1,) array of int
    mean_sd : (L + 1,) array
        Mean over the targets of the standard deviation, world units.
    mean_entropy : (L + 1,) array
        Mean over the targets of the entropy, nats.
    targets : int
        A fixed sample of so many targets was used.
    """

    annotations: np.ndarray
    mean_sd: Floats
    mean_entropy: Floats
    targets: int


@dataclass(frozen=True, eq=False)
class Progress:
    """What `Session.progress` tells.

    Attributes
    ----------
    annotations : int
        Locations that the model rests on.
    queries, locations : int
        Length of the shared list, with and without repeats and what is for one rater only.
    answered, placed, skipped, deferred : int
        Of the rater asked about, or of all.
    mean_sd, max_sd : float
        Mean and largest standard deviation over the targets, world units.
    units : str
    targets : int
    expected_gain : float or None
        Of the next query, nats; None where there is none.
    curve : Curve
    stop_rules : tuple of StopRule
    done : bool
        Whether the list will not be extended: a rule is met, or no candidate is left.
    reasons : tuple of str
        The sentences of the rules that are met.
    median_seconds : float or None
        Time for an answer.
    weights : str
        Where the weights of the model come from, in a sentence.
    next_refit : int or None
        Number of annotations at which they are refitted next.
    scale : float
        Factor on the posterior covariance from the leave-one-out calibration.
    """

    annotations: int
    queries: int
    locations: int
    answered: int
    placed: int
    skipped: int
    deferred: int
    mean_sd: float
    max_sd: float
    units: str
    targets: int
    expected_gain: float | None
    curve: Curve
    stop_rules: tuple[StopRule, ...]
    done: bool
    reasons: tuple[str, ...]
    median_seconds: float | None
    weights: str
    next_refit: int | None
    scale: float


def uncertainty_curve(posterior: Posterior, targets: Floats, seed: int) -> Curve:
    """Follow the uncertainty over the annotations, all at once.

    The whitened rows of the first l annotations do not depend on later ones, so that cumulative sums over the rows of
    one product give the covariance at the targets after each annotation.
    """
    rows = np.arange(len(targets))
    if len(targets) > CURVE_TARGETS:
        rows = np.sort(np.random.default_rng(seed).choice(len(targets), CURVE_TARGETS, replace=False))
    points, d, L = targets[rows], posterior.d, len(posterior.annotations)
    conditioned = posterior.conditioned
    prior = conditioned.kernel.diagonal(points)
    variances, entropies = np.empty((L + 1, len(points))), np.empty((L + 1, len(points)))
    constant = entropy_constant(d) + 0.5 * d * np.log(posterior.scale)
    if L == 0 or posterior.isotropic:
        explained = np.square(conditioned.whitened(points)) if L else np.zeros((0, len(points)))
        variances[0], variances[1:] = prior, prior - np.cumsum(explained, axis=0)
        entropies = 0.5 * d * np.log(variances) + constant
    else:
        V = conditioned.whitened(points).reshape(L, d, len(points), d)
        covariance = prior[:, None, None] * np.eye(d)
        for count in range(L + 1):
            if count:
                covariance = covariance - np.einsum("rna,rnb->nab", V[count - 1], V[count - 1])
            variances[count] = np.trace(covariance, axis1=1, axis2=2) / d
            entropies[count] = 0.5 * log_determinants(covariance) + constant
    mean_sd = np.sqrt(posterior.scale * variances).mean(axis=1)
    return Curve(np.arange(L + 1), mean_sd, entropies.mean(axis=1), len(points))


def stop_rules(
    settings: Settings, units: str, placed: int, mean_sd: float, max_sd: float, gain: float | None
) -> tuple[StopRule, ...]:
    """Hold the rules of the settings against the present numbers."""
    rules = []
    if settings.budget is not None:
        met = placed >= settings.budget
        sentence = f"{placed} of the budget of {settings.budget} landmarks {'is' if placed == 1 else 'are'} placed."
        rules.append(StopRule("budget", settings.budget, placed, met, sentence))
    for name, limit, value, words in (
        ("mean_sd", settings.stop_mean_sd, mean_sd, "The mean standard deviation over the targets"),
        ("max_sd", settings.stop_max_sd, max_sd, "The largest standard deviation over the targets"),
    ):
        if limit is not None:
            met = value < limit
            sentence = f"{words}, {value:.3g} {units}, is {'below' if met else 'not yet below'} {limit:.3g} {units}."
            rules.append(StopRule(name, limit, value, met, sentence))
    if settings.stop_gain is not None:
        met = gain is not None and gain < settings.stop_gain
        now = "not known" if gain is None else f"{gain:.3g} nats"
        sentence = f"The expected gain of the next location, {now}, is {'below' if met else 'not yet below'} " \
                   f"{settings.stop_gain:.3g} nats."  # fmt: skip
        rules.append(StopRule("gain", settings.stop_gain, gain, met, sentence))
    return tuple(rules)
