"""The slow, obvious implementation, straight from the formulas of the paper.

Every function names the equation that it writes out, by the LaTeX label in the paper's source. There is no
cleverness on purpose: plain loops, full Ld x Ld matrices in the paper's order (annotation by annotation, the d
components of one annotation side by side), a linear solve wherever the paper writes an inverse. Nothing here
imports the package, so an error cannot sit in both.

Arguments that recur:

``k``
    the kernel, a function ``(x, y) -> (d, d)``; see :func:`kernel`.
``mean``
    the mean transformation mu, a function ``(n, d) -> (n, d)``.
``X``, ``Y``, ``covariances``
    the annotations x_l, y_l, Sigma_l: ``(L, d)``, ``(L, d)``, ``(L, d, d)``; L may be 0.
``extra_noise``
    a variance added to every Sigma_l as a multiple of I_d (not in the paper; 0 there).

Where the paper is loose, the docstring says so and says what is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import stats

Array = np.ndarray
Kernel = Callable[[Array, Array], Array]
Mean = Callable[[Array], Array]

R_WENDLAND = 1.0
R_GAUSSIAN = 2.0 / (3.0 * math.sqrt(math.pi))
R_INVERSE_QUADRATIC = 2.0 / (3.0 * math.pi)


# ---------------------------------------------------------------------------------------------------------------
# Kernels
# ---------------------------------------------------------------------------------------------------------------


def radial(family: str, r):
    """Radial basis function K(r), with r_W = 1 and the other two set by eq:kernel_integral_normalisation.

    eq:gaussian_kernel, eq:inverse_quadratic_kernel, eq:wendland_kernel_1. ``r`` may be a number or an array.
    """
    if family == "gaussian":
        return np.exp(-(r**2) / R_GAUSSIAN**2)
    if family == "inverse_quadratic":
        return 1.0 / (1.0 + r**2 / R_INVERSE_QUADRATIC**2)
    if family == "wendland":
        return (4.0 * r / R_WENDLAND + 1.0) * np.maximum(1.0 - r / R_WENDLAND, 0.0) ** 4
    raise ValueError(f"unknown family {family!r}")


def kernel(family: str, scales, weights, x, y, trend=None, regions=None, own=None) -> Array:
    """k(x, y) = [sum_s theta_s K(|x - y| / rho_s)] I_d, eq:kernel_bundle: a ``(d, d)`` matrix.

    ``trend = (translation_sd, linear_sd, center)`` adds what an affine displacement b + M (x - center) adds to the
    covariance, when all d entries of b and all d^2 entries of M are independent Gaussians of mean 0 and standard
    deviations ``translation_sd`` and ``linear_sd``: Cov = (translation_sd^2 + linear_sd^2 (x-c).(y-c)) I_d.
    (The paper has no trend: its mean is the identity alone.)

    With ``regions``, a function from points to labels, k = k_shared + [x and y in one region] k_own, where k_own has
    the share ``own[s]`` of theta_s and k_shared the rest. (The paper has no regions.)
    """
    x = np.asarray(x, dtype=float)
    y = np.asarray(y, dtype=float)
    distance = math.sqrt(sum((x[i] - y[i]) ** 2 for i in range(len(x))))
    value = 0.0
    for s, (rho, theta) in enumerate(zip(scales, weights, strict=True)):
        one = theta * radial(family, distance / rho)
        if regions is None or regions(x[None])[0] == regions(y[None])[0]:
            value += one
        else:
            value += (1 - own[s]) * one
    if trend is not None:
        translation_sd, linear_sd, center = trend
        inner = sum((x[i] - center[i]) * (y[i] - center[i]) for i in range(len(x)))
        value += translation_sd**2 + linear_sd**2 * inner
    return value * np.eye(len(x))


def identity(points: Array) -> Array:
    """Return the points: the paper's mean transformation, mu(x) = x."""
    return np.array(points, dtype=float)


def kernel_matrix(k: Kernel, X: Array, Y: Array) -> Array:
    """K_{XY} of d x d blocks k(x_i, y_j), eq:definition_K_TT: ``(n d, m d)``."""
    X, Y = _points(X), _points(Y)
    d = X.shape[1]
    if d != Y.shape[1]:
        raise ValueError("the two sets of points differ in dimension")
    matrix = np.zeros((len(X) * d, len(Y) * d))
    for i in range(len(X)):
        for j in range(len(Y)):
            matrix[i * d : (i + 1) * d, j * d : (j + 1) * d] = k(X[i], Y[j])
    return matrix


def noise_matrix(covariances: Array, extra_noise: float = 0.0) -> Array:
    """diag(Sigma_1, ..., Sigma_L), block diagonal, from the unlabelled equation of K_AA: ``(L d, L d)``."""
    covariances = np.asarray(covariances, dtype=float)
    count, d, _ = covariances.shape
    matrix = np.zeros((count * d, count * d))
    for i in range(count):
        matrix[i * d : (i + 1) * d, i * d : (i + 1) * d] = covariances[i] + extra_noise * np.eye(d)
    return matrix


# ---------------------------------------------------------------------------------------------------------------
# Conditioning
# ---------------------------------------------------------------------------------------------------------------


def posterior(
    k: Kernel, mean: Mean, X: Array, Y: Array, covariances: Array, points: Array, extra_noise: float = 0.0
) -> tuple[Array, Array]:
    """Condition the process on the annotations: means ``(n, d)`` and the joint covariance ``(n d, n d)``.

    mu_|A(x) = mu(x) + K_X(x)^T K_AA^-1 (Y - mu(X)), eq:gaussian_process_mean_conditioned;
    k_|A(x, x') = k(x, x') - K_X(x)^T K_AA^-1 K_X(x'), eq:gaussian_process_covariance_conditioned, for all pairs of
    points at once, which is eq:definition_K_TT_given_A. Without annotations both are the prior's.
    """
    points = _points(points)
    prior_mean = np.asarray(mean(points), dtype=float)
    prior_covariance = kernel_matrix(k, points, points)
    if len(X) == 0:
        return prior_mean, prior_covariance
    X = _points(X)
    K_AA = kernel_matrix(k, X, X) + noise_matrix(covariances, extra_noise)
    K_XP = kernel_matrix(k, X, points)
    deviation = (np.asarray(Y, dtype=float) - np.asarray(mean(X), dtype=float)).reshape(-1)
    means = prior_mean + (K_XP.T @ np.linalg.solve(K_AA, deviation)).reshape(prior_mean.shape)
    return means, _symmetric(prior_covariance - K_XP.T @ np.linalg.solve(K_AA, K_XP))


def block_diagonal(joint: Array, d: int) -> Array:
    """Return the blocks k_|A(x, x) on the diagonal of a joint covariance: ``(n, d, d)``."""
    count = joint.shape[0] // d
    blocks = np.zeros((count, d, d))
    for i in range(count):
        blocks[i] = joint[i * d : (i + 1) * d, i * d : (i + 1) * d]
    return blocks


# ---------------------------------------------------------------------------------------------------------------
# Entropies and suggestion
# ---------------------------------------------------------------------------------------------------------------


def entropy_gaussian(covariance: Array) -> float:
    """H = (m / 2) log(2 pi e) + 1/2 log det of an m x m covariance, eq:entropy_gp, in nats; 0 for m = 0."""
    covariance = np.asarray(covariance, dtype=float)
    sign, log_determinant = np.linalg.slogdet(covariance)
    if sign <= 0:
        raise ValueError("the covariance is not positive definite, so its entropy is not finite")
    return 0.5 * covariance.shape[0] * math.log(2.0 * math.pi * math.e) + 0.5 * float(log_determinant)


def joint_entropy_given(
    k: Kernel, targets: Array, X: Array, covariances: Array, extra_noise: float = 0.0, exact_points: Array | None = None
) -> float:
    """H(Phi_T | tilde Phi_X, Phi_E): noisy annotations at X, exact values at E = ``exact_points``.

    eq:entropy_gp with the covariance of eq:definition_K_TT_given_A, where the exact values are annotations with
    Sigma = 0, as eq:minimisation_problem_greedy asks. No targets: 0. A target among the exact points has no finite
    entropy (the paper's remark below eq:minimisation_problem_greedy).
    """
    if len(targets) == 0:
        return 0.0
    targets = _points(targets)
    d = targets.shape[1]
    locations, noises = [], []
    for i in range(len(X)):
        locations.append(np.asarray(X[i], dtype=float))
        noises.append(np.asarray(covariances[i], dtype=float) + extra_noise * np.eye(d))
    if exact_points is not None:
        for point in exact_points:
            locations.append(np.asarray(point, dtype=float))
            noises.append(np.zeros((d, d)))
    K_TT = kernel_matrix(k, targets, targets)
    if not locations:
        return entropy_gaussian(K_TT)
    given = np.array(locations)
    K_AA = kernel_matrix(k, given, given) + noise_matrix(np.array(noises))
    K_XT = kernel_matrix(k, given, targets)
    return entropy_gaussian(_symmetric(K_TT - K_XT.T @ np.linalg.solve(K_AA, K_XT)))


def delta_entropy(
    k: Kernel, candidates: Array, targets: Array | None, X: Array, covariances: Array, extra_noise: float = 0.0
) -> Array:
    """Delta H_l(x) of each candidate from its definition, eq:fast_optimization rearranged: ``(n,)``.

    Delta H_l(x) = H(Phi_T | tilde Phi_X) - H(Phi_{T minus x} | tilde Phi_X, Phi_x). A candidate is in T where its
    coordinates are exactly those of a target. ``targets=None`` takes T = {x} for each candidate in turn, which
    gives H(Phi_x | tilde Phi_X); by eq:delta_H_in_T that is the value for every T that contains x.
    """
    gains = []
    for x in _points(candidates):
        T = np.array([x]) if targets is None else _points(targets)
        rest = np.array([t for t in T if not np.array_equal(t, x)])
        before = joint_entropy_given(k, T, X, covariances, extra_noise)
        after = joint_entropy_given(k, rest, X, covariances, extra_noise, exact_points=np.array([x]))
        gains.append(before - after)
    return np.array(gains)


def delta_entropy_formula(
    k: Kernel, candidates: Array, targets: Array | None, X: Array, covariances: Array, extra_noise: float = 0.0
) -> Array:
    """Delta H_l(x) of each candidate by the two short formulas: ``(n,)``.

    x in T: H(Phi_x | tilde Phi_X), eq:delta_H_in_T. x not in T: H(Phi_x | tilde Phi_X) - H(Phi_x | Phi_T, tilde
    Phi_X), eq:delta_H_not_in_T. ``targets=None``: every candidate is in T.
    """
    gains = []
    for x in _points(candidates):
        here = np.array([x])
        gain = joint_entropy_given(k, here, X, covariances, extra_noise)
        if targets is not None and not any(np.array_equal(t, x) for t in targets):
            gain -= joint_entropy_given(k, here, X, covariances, extra_noise, exact_points=_points(targets))
        gains.append(gain)
    return np.array(gains)


def greedy_sequence(
    k: Kernel,
    candidates: Array,
    targets: Array | None,
    covariances_for_candidates: Array,
    count: int,
    first: int | None = None,
    extra_noise: float = 0.0,
) -> list[int]:
    """Algorithm 1 (fig:algorithm): the first ``count`` queried candidates, by index.

    Each step queries argmax of Delta H_l, eq:maximisation_problem_greedy_simplified, and the annotator answers with
    the covariance given for that candidate. The lowest index wins a tie. ``first`` fixes the first query, for
    comparisons that must not hang on how the tie between all candidates at l = 0 is broken. A candidate is dropped
    by its index once queried; the candidates are a set, so they are taken to be distinct.
    """
    candidates = _points(candidates)
    chosen: list[int] = []
    while len(chosen) < count:
        if first is not None and not chosen:
            chosen.append(first)
            continue
        left = [i for i in range(len(candidates)) if i not in chosen]
        gains = delta_entropy_formula(
            k, candidates[left], targets, candidates[chosen], covariances_for_candidates[chosen], extra_noise
        )
        chosen.append(left[int(np.argmax(gains))])
    return chosen


def farthest_sequence(candidates: Array, first: int, count: int) -> list[int]:
    """Return the paper's Heuristic: each query is the candidate farthest from those queried before it, by index.

    Farthest: the distance to the nearest queried candidate is largest. The lowest index wins a tie.
    """
    candidates = _points(candidates)
    chosen = [first]
    while len(chosen) < count:
        best, best_distance = -1, -1.0
        for i in range(len(candidates)):
            if i in chosen:
                continue
            distance = min(float(np.linalg.norm(candidates[i] - candidates[j])) for j in chosen)
            if distance > best_distance:
                best, best_distance = i, distance
        chosen.append(best)
    return chosen


# ---------------------------------------------------------------------------------------------------------------
# Annotations
# ---------------------------------------------------------------------------------------------------------------


def ellipse_to_covariance(half_lengths, axes_columns, alpha: float) -> Array:
    """Sigma = V diag[(r_i / gamma)^2] V^T with F(gamma^2, d) = 1 - alpha, eq:covariance_matrix_from_ellipse."""
    V = np.asarray(axes_columns, dtype=float)
    d = V.shape[0]
    gamma_squared = stats.chi2.ppf(1.0 - alpha, d)
    covariance = np.zeros((d, d))
    for i in range(d):
        covariance += half_lengths[i] ** 2 / gamma_squared * np.outer(V[:, i], V[:, i])
    return covariance


def sample_covariance_fusion(points: Array) -> tuple[Array, Array]:
    """Fit a Gaussian to the R raters' placements of one point: mean ``(d,)``, covariance ``(d, d)``.

    sec:multiple_pointwise_annotations asks for a "d-variate Gaussian fit" and no more; this is the unbiased one,
    with R - 1 below the sum.
    """
    points = _points(points)
    center = sum(points[r] for r in range(len(points))) / len(points)
    scatter = np.zeros((points.shape[1], points.shape[1]))
    for r in range(len(points)):
        scatter += np.outer(points[r] - center, points[r] - center)
    return center, scatter / (len(points) - 1)


# ---------------------------------------------------------------------------------------------------------------
# Leave one out
# ---------------------------------------------------------------------------------------------------------------


def leave_one_out(
    k: Kernel, mean: Mean, X: Array, Y: Array, covariances: Array, extra_noise: float = 0.0
) -> tuple[Array, Array]:
    """Predict each annotation from the others A^(l): residuals ``(L, d)``, predictive covariances ``(L, d, d)``.

    By really leaving it out and conditioning: y_l - mu_|A(l)(x_l) and k_|A(l)(x_l, x_l) + Sigma_l (+ extra noise),
    the distribution below the unlabelled equation of l_GPP.
    """
    X, Y, covariances = _points(X), _points(Y), np.asarray(covariances, dtype=float)
    d = X.shape[1]
    residuals = np.zeros((len(X), d))
    predictive = np.zeros((len(X), d, d))
    for i in range(len(X)):
        rest = [j for j in range(len(X)) if j != i]
        means, covariance = posterior(k, mean, X[rest], Y[rest], covariances[rest], X[i : i + 1], extra_noise)
        residuals[i] = Y[i] - means[0]
        predictive[i] = covariance + covariances[i] + extra_noise * np.eye(d)
    return residuals, predictive


def leave_one_out_negative_log_likelihoods(
    k: Kernel, mean: Mean, X: Array, Y: Array, covariances: Array, extra_noise: float = 0.0
) -> Array:
    """-log P(y_l | A^(l), x_l, Sigma_l) of each annotation: ``(L,)``; their sum is the unlabelled l_GPP."""
    residuals, predictive = leave_one_out(k, mean, X, Y, covariances, extra_noise)
    values = []
    for residual, covariance in zip(residuals, predictive, strict=True):
        mahalanobis = residual @ np.linalg.solve(covariance, residual)
        log_determinant = np.linalg.slogdet(covariance)[1]
        values.append(0.5 * (len(residual) * math.log(2.0 * math.pi) + log_determinant + mahalanobis))
    return np.array(values)


def gpp_loss(k: Kernel, mean: Mean, X: Array, Y: Array, covariances: Array, extra_noise: float = 0.0) -> float:
    """Mean over l of 1/2 (d + q_l^T D_ll^-1 q_l - log det D_ll), eq:gpp_loss_simplified over 2 L.

    D_ll is the l-th diagonal block of K_AA^-1 and q_l the l-th segment of K_AA^-1 (Y - mu(X)). The paper joins this
    to l_GPP by "proportional to"; in truth they differ by a constant too:
    l_GPP / L = gpp_loss - d / 2 + (d / 2) log(2 pi).
    """
    X, Y = _points(X), _points(Y)
    d = X.shape[1]
    inverse = np.linalg.inv(kernel_matrix(k, X, X) + noise_matrix(covariances, extra_noise))
    q = inverse @ (Y - np.asarray(mean(X), dtype=float)).reshape(-1)
    total = 0.0
    for i in range(len(X)):
        D_ii = inverse[i * d : (i + 1) * d, i * d : (i + 1) * d]
        q_i = q[i * d : (i + 1) * d]
        total += 0.5 * (d + q_i @ np.linalg.solve(D_ii, q_i) - np.linalg.slogdet(D_ii)[1])
    return float(total / len(X))


# ---------------------------------------------------------------------------------------------------------------
# Scores
# ---------------------------------------------------------------------------------------------------------------


def displacement_norm(errors: Array, p: float) -> float:
    """(1/|T| sum |e|^p)^(1/p), the largest |e| for p = inf, eq:p_norms; ``(n, d)`` errors or ``(n,)`` lengths."""
    errors = np.asarray(errors, dtype=float)
    lengths = [math.sqrt(sum(float(component) ** 2 for component in np.atleast_1d(error))) for error in errors]
    if math.isinf(p):
        return max(lengths)
    total = 0.0
    for length in lengths:
        total += length**p
    return (total / len(lengths)) ** (1.0 / p)


def landmark_score(mapped_landmarks: Array, Y: Array, p: float) -> float:
    """p-norm of hat phi(x_l) - y_l over the landmarks, eq:set_landmark_displacements in eq:p_norms."""
    return displacement_norm(_points(mapped_landmarks) - _points(Y), p)


def posterior_score(mu: Array, mapped: Array, p: float) -> float:
    """p-norm of hat phi(x) - mu_|A(x) over the targets, eq:target_set_displacements_on_annotations."""
    return displacement_norm(_points(mapped) - _points(mu), p)


def expected_squared_error(mu: Array, covariances: Array, mapped: Array) -> float:
    """E over phi | A of the squared 2-norm of the displacement errors over T.

    |hat phi - mu_|A|_2^2 + 1/|T| sum_x tr k_|A(x, x): the unlabelled identity of sec:experiments_capacity_evaluation.
    The paper's line leaves out the 1/|T| before the sum of traces, which its own norm (eq:p_norms, a mean over T)
    needs. ``covariances`` is ``(n, d, d)`` or the joint ``(n d, n d)``.
    """
    covariances = np.asarray(covariances, dtype=float)
    mu = _points(mu)
    if covariances.ndim == 2:
        covariances = block_diagonal(covariances, mu.shape[1])
    traces = 0.0
    for block in covariances:
        traces += float(np.trace(block))
    return posterior_score(mu, mapped, 2) ** 2 + traces / len(mu)


def error_score(mu: Array, covariances: Array, mapped: Array) -> Array:
    """e(x) = F(sum_i <v_i, hat phi(x) - mu_|A(x)>^2 / sigma_i^2, d), the unlabelled equation of the heat map: ``(n,)``.

    sigma_i^2 and v_i are the eigenvalues and eigenvectors of k_|A(x, x), F the chi-square distribution function
    with d degrees of freedom. (The paper calls it the p-value; it is 1 minus the p-value.)
    """
    mu, mapped = _points(mu), _points(mapped)
    scores = []
    for i in range(len(mu)):
        eigenvalues, eigenvectors = np.linalg.eigh(covariances[i])
        total = 0.0
        for j in range(mu.shape[1]):
            total += float(eigenvectors[:, j] @ (mapped[i] - mu[i])) ** 2 / eigenvalues[j]
        scores.append(stats.chi2.cdf(total, mu.shape[1]))
    return np.array(scores)


def probability_smaller_mse(mu: Array, joint: Array, mapped_a: Array, mapped_b: Array) -> float:
    """P(MSE_a < MSE_b) for phi(T) ~ N(mu, joint): exact, since the difference is linear in phi.

    MSE_a - MSE_b = 1/|T| sum_x (|a|^2 - |b|^2 - 2 (a - b).phi), so it is Gaussian with the value at phi = mu as its
    mean and 4 / |T|^2 Delta^T K Delta, Delta = a - b, as its variance. Where that variance is 0 the answer is 1 or
    0, and 1/2 for a tie.
    """
    mu, a, b = _points(mu), _points(mapped_a), _points(mapped_b)
    expected = 0.0
    for i in range(len(mu)):
        expected += float((a[i] - mu[i]) @ (a[i] - mu[i]) - (b[i] - mu[i]) @ (b[i] - mu[i])) / len(mu)
    delta = (a - b).reshape(-1)
    variance = 4.0 / len(mu) ** 2 * float(delta @ joint @ delta)
    if variance <= 0.0:
        return 0.5 if expected == 0.0 else float(expected < 0.0)
    return float(stats.norm.cdf(-expected / math.sqrt(variance)))


def spearman(ranks_a, ranks_b) -> float:
    """r_s = 1 - 6 / (K (K^2 - 1)) sum_k (difference of ranks)^2, the unlabelled equation; ranks 1..K without ties."""
    K = len(ranks_a)
    total = 0.0
    for a, b in zip(ranks_a, ranks_b, strict=True):
        total += (float(a) - float(b)) ** 2
    return 1.0 - 6.0 * total / (K * (K**2 - 1))


def _points(points) -> Array:
    """Return the points as an ``(n, d)`` float array."""
    points = np.asarray(points, dtype=float)
    if points.ndim != 2:
        raise ValueError("points must be an (n, d) array")
    return points


def _symmetric(matrix: Array) -> Array:
    """Remove the rounding asymmetry of a matrix that is symmetric in exact arithmetic."""
    return 0.5 * (matrix + matrix.T)


# ---------------------------------------------------------------------------------------------------------------
# Suggestion beyond the paper
# ---------------------------------------------------------------------------------------------------------------


def _with_one_more(X: Array, covariances: Array, x: Array, covariance: Array) -> tuple[Array, Array]:
    """The annotated locations and their covariances with one more of each."""
    d = len(x)
    return np.concatenate([np.reshape(X, (-1, d)), [x]]), np.concatenate(
        [np.reshape(covariances, (-1, d, d)), [covariance]]
    )


def information_gains(
    k: Kernel,
    candidates: Array,
    targets: Array | None,
    X: Array,
    covariances: Array,
    expected: Array,
    extra_noise: float = 0.0,
) -> Array:
    """H(Phi_T | tilde Phi_X) - H(Phi_T | tilde Phi_X, tilde Phi_x) for each candidate x annotated with ``expected``.

    ``targets=None`` takes T = {x} for each candidate in turn.
    """
    gains = []
    for x, sigma in zip(_points(candidates), expected, strict=True):
        T = np.array([x]) if targets is None else _points(targets)
        more = _with_one_more(X, covariances, x, sigma)
        before = joint_entropy_given(k, T, X, covariances, extra_noise)
        gains.append(before - joint_entropy_given(k, T, *more, extra_noise))
    return np.array(gains)


def question_values(
    k: Kernel,
    candidates: Array,
    targets: Array | None,
    X: Array,
    covariances: Array,
    expected: Array,
    chances: Array,
    extra_noise: float = 0.0,
) -> Array:
    """What a question is worth: the information of its answer times the chance that there is one."""
    return np.asarray(chances) * information_gains(k, candidates, targets, X, covariances, expected, extra_noise)


def chance_by_draws(mean: Array, covariance: Array, contains, nu: float, count: int, seed: int) -> float:
    """Share of draws, normal or Student-t with this covariance, that lie in a region."""
    shape = np.asarray(covariance) * (1 if math.isinf(nu) else (nu - 2) / nu)
    draws = stats.multivariate_t(mean, shape, df=nu, seed=seed).rvs(count)
    return float(np.mean(contains(draws)))


def answer_field(points: Array, answered: Array, skipped: Array, reach: float, weight: float) -> Array:
    """Smoothed share of answers, (1 + sum K_a) / (1 + sum K_a + w sum K_s) with K = exp(-r^2 / 2 h^2)."""
    field = []
    for x in _points(points):
        a = 1 + sum(math.exp(-(math.dist(x, y) ** 2) / (2 * reach**2)) for y in answered)
        s = sum(math.exp(-(math.dist(x, y) ** 2) / (2 * reach**2)) for y in skipped)
        field.append(a / (a + weight * s))
    return np.array(field)


def krause_gains(
    k: Kernel,
    candidates: Array,
    others: Array | None,
    annotated: list[int],
    elsewhere: Array,
    covariances: Array,
    expected: Array,
    expected_of_others: Array,
    extra_noise: float = 0.0,
) -> Array:
    """I(A + y; V - A - y) - I(A; V - A) for each candidate y that is not annotated; NaN for the annotated ones.

    Krause, Singh, Guestrin 2008, JMLR 9, from the mutual informations themselves: V is the noisy annotations of all
    candidates and of ``others`` (locations that cannot be asked); A is those of the candidates ``annotated`` and of
    the points ``elsewhere``, with the ``covariances`` of both in that order. What is not annotated counts with the
    covariance expected there.
    """
    candidates = _points(candidates)
    d = candidates.shape[1]
    others = np.zeros((0, d)) if others is None else _points(others)
    locations = np.concatenate([candidates[annotated], np.reshape(elsewhere, (-1, d))])

    def noisy(points: Array, noises: Array) -> Array:
        if len(points) == 0:
            return np.zeros((0, 0))
        return kernel_matrix(k, points, points) + noise_matrix(noises, extra_noise)

    def information(first: tuple[Array, Array], second: tuple[Array, Array]) -> float:
        both = noisy(np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]]))
        parts = [np.linalg.slogdet(noisy(*part))[1] if len(part[0]) else 0.0 for part in (first, second)]
        return 0.5 * float(sum(parts) - np.linalg.slogdet(both)[1])

    def rest(without: list[int]) -> tuple[Array, Array]:
        left = [i for i in range(len(candidates)) if i not in without]
        return np.concatenate([candidates[left], others]), np.concatenate([expected[left], expected_of_others])

    gains = np.full(len(candidates), np.nan)
    before = information((locations, np.reshape(covariances, (-1, d, d))), rest(annotated))
    for i in range(len(candidates)):
        if i not in annotated:
            more = _with_one_more(locations, covariances, candidates[i], expected[i])
            gains[i] = information(more, rest([*annotated, i])) - before
    return gains


# ---------------------------------------------------------------------------------------------------------------------
# An average over what the truth may be near to (not in the paper)
# ---------------------------------------------------------------------------------------------------------------------


def error_model(
    k_of_scale: Callable[[float], Kernel],
    scales,
    unevenness,
    along,
    trend,
    sizes,
    factors,
    factor_prior,
    X: Array,
    Y: Array,
    covariances: Array,
    T: Array,
    median: tuple[Array, Array],
    directions: tuple[Array, Array],
) -> tuple[Array, Array, Array]:
    """Weights of every (scale, unevenness, along, trend, factor, size), mean and joint covariance of the truth at T.

    The truth is ``median + sqrt(v) (s(x) g(x) + along sum_k z_k D_k(x) + trend (u + U (x - c) / size) / sqrt(d + 1))``
    with c and size the centre and spread of X, all of u and U standard normal, and the noise ``f Sigma``; every
    combination is conditioned in the slow way by one dense matrix. Half of the weight is that of the combinations with
    f <= 1 alone, each as probable as the others.
    ``unevenness`` holds pairs (s at X, s at T); ``directions`` the D_k, (n, d, K), at X and at T.
    """
    n, d = X.shape
    D = np.concatenate([one.reshape(-1, one.shape[2]) for one in directions])
    where = (np.concatenate([X, T]) - X.mean(axis=0)) / math.sqrt(((X - X.mean(axis=0)) ** 2).mean())
    affine = np.array(
        [
            [(a == b) * (1 + where[i] @ where[j]) / (d + 1) for j in range(len(where)) for b in range(d)]
            for i in range(len(where))
            for a in range(d)
        ]
    )
    logs, means, joints, stated = [], [], [], []
    for scale in scales:
        unit = kernel_matrix(k_of_scale(scale), np.concatenate([X, T]), np.concatenate([X, T]))
        for s_X, s_T in unevenness:
            s = np.repeat(np.concatenate([s_X, s_T]), d)
            for eta, tau in [(eta, tau) for eta in along for tau in trend]:
                B = s[:, None] * unit * s[None, :] + eta**2 * D @ D.T + tau**2 * affine
                for f, p in zip(factors, factor_prior, strict=True):
                    for v in sizes:
                        A = v * B[: n * d, : n * d] + f * noise_matrix(covariances)
                        r = (Y - median[0]).reshape(-1)
                        logs.append(math.log(p) - 0.5 * (r @ np.linalg.solve(A, r) + np.linalg.slogdet(A)[1]))
                        stated.append(1 / p if f <= 1 else 0.0)
                        gain = v * B[n * d :, : n * d] @ np.linalg.inv(A)
                        means.append(median[1].reshape(-1) + gain @ r)
                        joints.append(v * B[n * d :, n * d :] - gain @ (v * B[: n * d, n * d :]))
    w = np.exp(np.array(logs) - max(logs))
    only = np.array(stated) * w
    w = 0.5 * w / w.sum() + 0.5 * only / only.sum()
    mean = sum(a * m for a, m in zip(w, means, strict=True))
    joint = sum(a * (c + np.outer(m - mean, m - mean)) for a, m, c in zip(w, means, joints, strict=True))
    return w, mean.reshape(-1, d), joint


# ---------------------------------------------------------------------------------------------------------------
# Beyond the paper: Student-t tails, and weights averaged over a power law
# ---------------------------------------------------------------------------------------------------------------


def student_t_log_density(residual: Array, covariance: Array, nu: float) -> float:
    """Log density of the d-variate t distribution of mean 0 with this *covariance* and nu degrees of freedom.

    Its scale matrix is (nu - 2) / nu times the covariance; nu = inf is the Gaussian.
    """
    if math.isinf(nu):
        return float(stats.multivariate_normal(np.zeros(len(residual)), covariance).logpdf(residual))
    return float(stats.multivariate_t(np.zeros(len(residual)), covariance * (nu - 2) / nu, nu).logpdf(residual))


def region_coverage(mu: Array, covariances: Array, truth: Array, level: float, nu: float = math.inf) -> float:
    """Share of the true matches inside the ellipsoids of a level, point by point."""
    mu, truth = _points(mu), _points(truth)
    d = mu.shape[1]
    inside = 0
    for i in range(len(mu)):
        residual = truth[i] - mu[i]
        square = float(residual @ np.linalg.solve(covariances[i], residual))
        if math.isinf(nu):
            inside += square <= stats.chi2.ppf(level, d)
        else:
            # square = residual^T S^-1 residual (nu - 2) / nu with the scale matrix S, and that over d is F(d, nu).
            inside += square * nu / (nu - 2) / d <= stats.f.ppf(level, d, nu)
    return inside / len(mu)


def leave_one_out_factor(residuals: Array, latent: Array, noise: Array, nu: float, count: float, said: float) -> float:
    """Best factor c on the latent covariances by a fine search, with ``count`` pseudo-annotations that say ``said``.

    Maximises sum_l log t(r_l; c k_l + N_l, nu) - count d / 2 (log c + said / c).
    """
    d = residuals.shape[1]
    best, best_value = 1.0, -math.inf
    for log_c in np.linspace(-3.0, 3.0, 301):
        c = math.exp(log_c)
        value = -0.5 * count * d * (log_c + said / c)
        for r, k, n in zip(residuals, latent, noise, strict=True):
            value += student_t_log_density(r, c * k + n, nu)
        if value > best_value:
            best, best_value = c, value
    return best


def power_law_weights(
    scales, extent, X: Array, Y: Array, variances, family: str = "wendland", trend=None, extra_noise: float = 0.0
) -> tuple[Array, float]:
    """Weights theta_s = (a D)^2 (rho_s / L)^p averaged over a grid of (log a, p) given annotations, ``(S,)``,
    and the log of the sum of prior times likelihood over the grid, by which two trends can be compared.

    D is the length of the diagonal and L the longest side of the image. log a goes from log(0.005) - 2 to + 2 and p
    from 0.2 to 4.2 in steps of 0.4; log a ~ N(log(0.005), 1), p ~ N(1.2, 0.8^2). The likelihood is that of N(X, K_AA),
    with ``variances`` the isotropic noise of each annotation. No annotations: the prior's mean.
    """
    D, L = math.sqrt(sum(side**2 for side in extent)), max(extent)
    total, weights = 0.0, np.zeros(len(scales))
    logs, candidates = [], []
    for i in range(11):
        for j in range(11):
            log_a, p = math.log(0.005) + 0.4 * (i - 5), 0.2 + 0.4 * j
            theta = np.array([math.exp(2 * log_a) * D**2 * (rho / L) ** p for rho in scales])
            value = -0.5 * (log_a - math.log(0.005)) ** 2 - 0.5 * ((p - 1.2) / 0.8) ** 2
            if len(X):
                k = lambda x, y, theta=theta: kernel(family, scales, theta, x, y, trend)  # noqa: E731
                noise = noise_matrix(np.array([v * np.eye(X.shape[1]) for v in variances]), extra_noise)
                covariance = kernel_matrix(k, X, X) + noise
                value += stats.multivariate_normal(np.zeros(X.size), covariance).logpdf((Y - X).reshape(-1))
            logs.append(value)
            candidates.append(theta)
    for value, theta in zip(logs, candidates, strict=True):
        share = math.exp(value - max(logs))
        total += share
        weights += share * theta
    return weights / total, max(logs) + math.log(total)


# ---------------------------------------------------------------------------------------------------------------
# Exact decisions (not in the paper): tickets and bets
# ---------------------------------------------------------------------------------------------------------------


def power_law_with_regions(scales, extent, X: Array, Y: Array, variances, regions, trend=None) -> tuple[Array, Array]:
    """Means over a grid of (log a, p, o) of the weights theta_s and of the parts o theta_s that regions own.

    As :func:`power_law_weights`; o is 0 with probability 1/2, or 1/2 or 1 with probability 1/4 each.
    """
    D, L = math.sqrt(sum(side**2 for side in extent)), max(extent)
    logs, thetas, parts = [], [], []
    for i in range(11):
        for j in range(11):
            for o in (0.0, 0.5, 1.0):
                log_a, p = math.log(0.005) + 0.4 * (i - 5), 0.2 + 0.4 * j
                theta = np.array([math.exp(2 * log_a) * D**2 * (rho / L) ** p for rho in scales])
                value = -0.5 * (log_a - math.log(0.005)) ** 2 - 0.5 * ((p - 1.2) / 0.8) ** 2
                value += math.log(0.5 if o == 0 else 0.25)
                own = np.full(len(scales), o)
                k = lambda x, y, theta=theta, own=own: kernel(  # noqa: E731
                    "wendland", scales, theta, x, y, trend, regions, own
                )
                noise = noise_matrix(np.array([v * np.eye(X.shape[1]) for v in variances]))
                covariance = kernel_matrix(k, X, X) + noise
                value += stats.multivariate_normal(np.zeros(X.size), covariance).logpdf((Y - X).reshape(-1))
                logs.append(value)
                thetas.append(theta)
                parts.append(o * theta)
    shares = [math.exp(value - max(logs)) for value in logs]
    weights = sum(share * theta for share, theta in zip(shares, thetas, strict=True)) / sum(shares)
    own_weights = sum(share * part for share, part in zip(shares, parts, strict=True)) / sum(shares)
    return weights, own_weights


def mixture_wealth(tickets) -> float:
    """Wealth of betting the stake s on every ticket, prod(1 - s + s G), averaged over s ~ Beta(2, 1/2)."""
    from scipy import integrate

    density = stats.beta(2.0, 0.5).pdf

    def wealth(root: float) -> float:  # s = 1 - root^2 takes away the density's pole at 1
        stake = 1.0 - root**2
        return math.prod(1.0 - stake + stake * g for g in tickets) * density(stake) * 2.0 * root

    return integrate.quad(wealth, 0.0, 1.0, epsabs=0, epsrel=1e-11, limit=200)[0]


def draw_tickets(values, chances, limit: float) -> list[float]:
    """(c + d) / (q (C_left - seen)), draw by draw: what is still left of the limit before each of them."""
    found, left = [], limit
    for value, chance in zip(values, chances, strict=True):
        found.append(value / (chance * left))
        left -= value
    return found


def ordered_draws(sizes, count: int):
    """All ordered draws of ``count`` units without replacement, in proportion to sizes.

    Yields (rows, conditional probability of each draw, probability of the whole).
    """
    from itertools import permutations

    for rows in permutations(range(len(sizes)), count):
        left, chances = float(sum(sizes)), []
        for row in rows:
            chances.append(sizes[row] / left)
            left -= sizes[row]
        yield list(rows), chances, math.prod(chances)


# ---------------------------------------------------------------------------------------------------------------
# A method beside a panel (not in the paper)
# ---------------------------------------------------------------------------------------------------------------


def heard_draw(phi, mu, method, beta: float):
    """Draw of the truth that knows a method: sqrt(1 - rho^2) r + rho (R / G) g, with rho = beta G / R within limits."""
    r = [[float(a - b) for a, b in zip(p, m, strict=True)] for p, m in zip(phi, mu, strict=True)]
    g = [[float(a - b) for a, b in zip(t, m, strict=True)] for t, m in zip(method, mu, strict=True)]
    R = np.sqrt(sum(x * x for row in r for x in row) / len(r))
    G = np.sqrt(sum(x * x for row in g for x in row) / len(g))
    rho = min(max(beta * G / R, -0.3), 0.995)
    moved = [
        [np.sqrt(1 - rho**2) * x + rho * R / G * y for x, y in zip(one, other, strict=True)]
        for one, other in zip(r, g, strict=True)
    ]
    return np.asarray(mu) + np.array(moved)


def size_weights(squares, residuals, noise: float, targets: int):
    """Weights of drawn mean squared errors by the mean square of residuals at annotations, log-normal about them."""
    seen = [float(sum(x * x for x in row)) for row in residuals]
    mean = sum(seen) / len(seen)
    variance = sum((one - mean) ** 2 for one in seen) / (len(seen) - 1)
    spread = 8 * max(variance / mean**2, 2.0) * (1 / len(seen) + 1 / targets)
    weights = [np.exp(-((np.log(mean) - np.log(one + noise / 2)) ** 2) / (2 * spread)) for one in squares]
    return np.array(weights) / sum(weights)
