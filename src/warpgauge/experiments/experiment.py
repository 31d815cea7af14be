"""Definition of an experiment: a plan of small runs, a function that computes one, and a report on all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Run:
    """One unit of work of a few seconds, which depends on nothing but its parameters and the data.

    Parameters
    ----------
    key : str
        Unique in the experiment, and safe as a file name.
    parameters : mapping
        What JSON can hold. A ``"dataset"`` among them lets ``--dataset`` choose runs.
    """

    key: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Findings:
    """What the runs say together.

    Parameters
    ----------
    numbers : dict
        Everything behind figures and sentences, as JSON can hold it.
    figures : dict
        matplotlib figures by file stem.
    sentences : list of str
        What was found, as measured.
    """

    numbers: dict[str, Any]
    figures: dict[str, Any] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)


Result = tuple[Run, dict[str, Any]]


@dataclass(frozen=True)
class Experiment:
    """A study as a command: what to run, how to run one, and how to sum up.

    Parameters
    ----------
    name, summary : str
        The command's word, and one line on what is studied.
    default_runs : int
        Runs a dataset at full size.
    plan : callable
        ``plan(data, runs, seed, quick)`` gives all runs.
    compute : callable
        ``compute(data, run)`` gives what JSON can hold. A function of a module, so that other processes find it;
        deterministic.
    report : callable
        ``report([(run, result), ...])``, in the order of the plan.
    needs : tuple of str
        Folders of the data directory that it reads.
    """

    name: str
    summary: str
    default_runs: int
    plan: Callable[[Path, int, int, bool], list[Run]]
    compute: Callable[[Path, Run], dict[str, Any]]
    report: Callable[[Sequence[Result]], Findings]
    needs: tuple[str, ...] = ()
