"""A project on disk: images, points, settings, and the log of everything that was done."""

from __future__ import annotations

import shutil
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from warpgauge.candidates import Foreground
from warpgauge.display import html_facts
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import PathLike
from warpgauge.io.images import Image
from warpgauge.io.transforms import Transform
from warpgauge.project.alignments import PROGRAM, alignment_of, check_alignable, proposed
from warpgauge.project.creation import LOG, create_project, settings_of
from warpgauge.project.document import Document, read_document, write_document
from warpgauge.project.errors import NotAllowedError, ProjectError
from warpgauge.project.events import Draft, Event, checked
from warpgauge.project.foregrounds import Wanted, found_again, load_foreground
from warpgauge.project.images import Spacing, image_problem, open_image, relinked
from warpgauge.project.ledger import ORGANISER, Ledger
from warpgauge.project.points import Progress, load
from warpgauge.project.settings import Settings
from warpgauge.project.state import State
from warpgauge.project.transforms import check_copy, copy_transform, read_record, refuse_reserved
from warpgauge.project.trust import check_trust, trust_new
from warpgauge.project.verify import VerifyReport, verify_project

if TYPE_CHECKING:
    from warpgauge.registration.rough_alignment import Alignment

Role = Literal["rater", "organiser", "viewer"]


class Project:
    """A project on disk. Make one with `create`, open one with `open`.

    May be used by several threads; several processes may each open the same folder.

    Attributes
    ----------
    folder : Path
    document : Document
        What ``project.json`` says.
    """

    def __init__(self, folder: Path, document: Document, ledger: Ledger) -> None:
        self.folder, self.document, self._ledger = folder, document, ledger
        ledger.on_note = self.reload

    @classmethod
    def create(
        cls,
        folder: PathLike,
        *,
        fixed: PathLike,
        moving: PathLike,
        fixed_mask: PathLike | None = None,
        moving_mask: PathLike | None = None,
        foreground: Wanted = "auto",
        targets: Any = None,
        candidates: Any = None,
        spacing: Spacing | Mapping[str, Spacing] = None,
        units: str | None = None,
        copy: bool = False,
        settings: Settings | Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Project:
        """Make a project and open it.

        Parameters
        ----------
        folder : path
            Must not exist, or be empty.
        fixed, moving : path
            Images, referenced by a path relative to the folder unless ``copy``.
        fixed_mask : path, optional
            Where it is not zero there are candidates and targets.
        moving_mask : path, optional
            Where it is not zero the moving image shows something that could be marked.
        foreground : {"auto", "none"}
            Where no mask is given: find the tissue or body, and take candidates and targets from it, or use the whole
            image.
        targets, candidates : optional
            See `warpgauge.project.points.make_targets` and `make_candidates`: None, a number, an array of world
            points, a landmark file, or a mapping with ``kind``.
        spacing, units : optional
            As `warpgauge.io.images.read_image` takes them, for both images; spacing also as a mapping with ``fixed``
            and ``moving``.
        copy : bool
            Copy the images into the project.
        settings : Settings or mapping, optional
        progress : callable, optional
            Called with the number of blocks done and of all blocks while candidates are sought.
        """
        aim = Path(folder)
        create_project(
            aim,
            Path(fixed),
            Path(moving),
            {side: Path(mask) for side, mask in (("fixed", fixed_mask), ("moving", moving_mask)) if mask is not None},
            foreground,
            targets,
            candidates,
            spacing,
            units,
            copy,
            settings_of(settings),
            progress,
        )
        return cls.open(aim)

    @classmethod
    def open(cls, folder: PathLike, *, check_images: bool = True, trust: bool | None = None) -> Project:
        """Open the project in a folder; images that are missing or changed are warned of.

        Parameters
        ----------
        folder : path
        check_images : bool
            Look whether the images are there and unchanged.
        trust : bool, optional
            True: let a project that was not made here reach outside its folder, and record that. None: as recorded,
            or as the variable ``WARPGAUGE_TRUST`` says.
        """
        path = Path(folder)
        document = read_document(path)
        check_trust(path, document, trust)
        ledger = Ledger(path / LOG, document.images["fixed"].grid.d)
        if ledger.log.project_id != document.id:
            ledger.log.close()
            raise ProjectError(
                f"The annotation log in {str(path)!r} belongs to another project than its project.json; files of two "
                f"projects were mixed: put back the right one."
            )
        project = cls(path, document, ledger)
        if check_images:
            for problem in project.image_problems():
                warnings.warn(problem, SuspiciousDataWarning, stacklevel=2)
        return project

    def close(self) -> None:
        """Close the log."""
        self._ledger.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Project {self.folder.name!r}: {self.d}D, {self.state.generation} events>"

    def _repr_html_(self) -> str:
        state = self.state
        facts = {
            "folder": str(self.folder),
            "dimension": self.d,
            "units": self.units,
            "fixed image": self.document.images["fixed"].path,
            "moving image": self.document.images["moving"].path,
            "candidates": len(self.candidates),
            "targets": len(self.targets),
            "raters": state.who_answered(),
            "transforms": self.transform_names(),
            "events": state.generation,
        }
        return html_facts(facts, f"Project {self.folder.name}")

    @property
    def id(self) -> str:
        """Identifier, the same for all copies of the project."""
        return self.document.id

    @property
    def settings(self) -> Settings:
        """How it is annotated."""
        return self.document.settings

    @property
    def readonly(self) -> bool:
        """Whether the folder could not be opened for writing."""
        return self._ledger.log.readonly

    @property
    def lock(self) -> threading.RLock:
        """Held while the state changes; hold it to read several things of one state."""
        return self._ledger.lock

    @property
    def d(self) -> int:
        """Dimension."""
        return self.fixed_grid.d

    @property
    def units(self) -> str:
        """World unit."""
        return self.fixed_grid.units

    @property
    def fixed_grid(self) -> Grid:
        """Frame of the fixed image."""
        return self.document.images["fixed"].grid

    @property
    def moving_grid(self) -> Grid:
        """Frame of the moving image."""
        return self.document.images["moving"].grid

    @cached_property
    def candidates(self) -> Floats:
        """World points of the fixed image that may be asked for."""
        return load(self.folder, self.document.candidates, "candidates")

    @cached_property
    def targets(self) -> Floats:
        """World points of the fixed image at which the transformation matters."""
        return load(self.folder, self.document.targets, "targets")

    @cached_property
    def fixed_foreground(self) -> Foreground | None:
        """Tissue or body in the fixed image; None where none was wanted, or an older warpgauge made the project."""
        return self._foreground("fixed")

    @cached_property
    def moving_foreground(self) -> Foreground | None:
        """Tissue or body in the moving image; None as for the fixed one."""
        return self._foreground("moving")

    def _foreground(self, side: Literal["fixed", "moving"]) -> Foreground | None:
        record = self.document.foregrounds.get(side)
        if record is None:
            return None
        found = load_foreground(self.folder, record)
        if found is not None:
            return found
        mask = self.image("fixed_mask" if side == "fixed" else "moving_mask") if record.source == "mask" else None
        return found_again(record, self.image(side), mask)

    @property
    def alignment(self) -> Alignment | None:
        """The rough alignment, if one was proposed and accepted; None otherwise."""
        event = self.state.alignment
        return alignment_of(event) if event is not None and event.payload["accepted"] else None

    def propose_alignment(self) -> Alignment:
        """Find a rough alignment of the two images and record it in the log, for a person to accept or refuse.

        Raises
        ------
        InvalidInputError
            Where raters are to place without a hint (``hide_prediction``), or the model is the paper's.
        """
        check_alignable(self.settings)
        found = proposed(self)
        self.append(Draft("align", PROGRAM, payload={**found.to_dict(), "accepted": None}))
        return found

    def answer_alignment(self, accepted: bool, rater: str = ORGANISER) -> Event:
        """Accept or refuse the alignment that was proposed last; an accepted one is the mean from then on."""
        event = self.state.alignment
        if event is None:
            raise InvalidInputError("No alignment was proposed; run warpgauge align, or Project.propose_alignment.")
        check_alignable(self.settings)
        return self.append(Draft("align", rater, payload={**event.payload, "accepted": bool(accepted)}))[0]

    def image(self, role: Literal["fixed", "moving", "fixed_mask", "moving_mask"]) -> Image:
        """Open an image; raises when it is missing or changed."""
        if role not in self.document.images:
            raise InvalidInputError(f"The project has no {role.replace('_', ' ')}.")
        return open_image(self.folder, self.document.images[role], role)

    def image_problems(self, *, thorough: bool = False) -> list[str]:
        """Return which images are missing or changed, one sentence each."""
        records = self.document.images.items()
        problems = (image_problem(self.folder, record, role, thorough=thorough) for role, record in records)
        return [problem for problem in problems if problem is not None]

    @property
    def state(self) -> State:
        """What the log says now, events of other processes included; not to be changed."""
        return self._ledger.state

    def sync(self) -> list[Event]:
        """Read what other processes have written since, and give it."""
        return self._ledger.sync()

    def events(self, after: int = 0) -> list[Event]:
        """Return the events of the log with a generation above ``after``."""
        return self._ledger.log.read(after)

    def append(self, *drafts: Draft) -> tuple[Event, ...]:
        """Write events, all or none; when this returns they are on the disk.

        Raises
        ------
        InvalidInputError
            When an event may not follow the state, as it is when no other process can write.
        ConflictError
            When the same rater changed the same query after a draft's base generation.
        NotAllowedError
            When the role of who acts does not allow it.
        StorageError
            When it could not be written; then nothing was.
        """
        return self._ledger.append(*drafts)

    def change_settings(self, rater: str = ORGANISER, **changes: Any) -> Settings:
        """Change settings, and note in the log who changed what."""
        self.settings.changed(**changes)  # refused before anything is locked
        told = ", ".join(f"{name} = {value!r}" for name, value in changes.items())
        text = f"Settings changed: {told}."
        self._rewrite(rater, text, lambda now: replace(now, settings=now.settings.changed(**changes)))
        return self.settings

    def relink(
        self,
        *,
        fixed: PathLike | None = None,
        moving: PathLike | None = None,
        fixed_mask: PathLike | None = None,
        moving_mask: PathLike | None = None,
        accept_changed: bool = False,
        rater: str = ORGANISER,
    ) -> None:
        """Record where images are now; a file with another content only with ``accept_changed``."""
        given = {"fixed": fixed, "moving": moving, "fixed_mask": fixed_mask, "moving_mask": moving_mask}
        images = dict(self.document.images)
        for role, path in given.items():
            if path is None:
                continue
            if role not in images:
                raise InvalidInputError(f"The project has no {role.replace('_', ' ')} to relink.")
            images[role] = relinked(self.folder, images[role], role, Path(path), accept_changed)
        told = "; ".join(
            f"{role} is {images[role].path} ({images[role].content_hash})" for role in given if given[role]
        )
        self._rewrite(rater, f"Images linked anew: {told}.", lambda now: replace(now, images=images))
        trust_new(self.folder, self.document)

    def use_mirror(self, folder: PathLike) -> None:
        """Append every further event also to a second copy of the log in another folder, before it is acknowledged."""
        self._ledger.log.use_mirror(Path(folder))

    def _rewrite(self, rater: str, note: str, change: Callable[[Document], Document]) -> None:
        """Write project.json anew while holding the log's write lock, so that two processes cannot cross."""
        draft = checked(Draft("note", rater, payload={"text": note}), self.d)

        def decide(state: State) -> list[Draft]:
            if state.role(rater) != ORGANISER:
                raise NotAllowedError(f"{rater} is not an organiser of this project and may not change it.")
            document = change(read_document(self.folder))
            write_document(self.folder, document)
            self.document = document
            return [draft]

        self._ledger.write(decide)

    def reload(self) -> None:
        """Read ``project.json`` again; done by itself when another process has changed settings or links."""
        self.document = read_document(self.folder)

    def add_rater(
        self, name: str, role: Role = "rater", *, token_hash: str | None = None, by: str = ORGANISER
    ) -> Event:
        """Register a person, or change their role or token; the hash of the token is kept as it is given."""
        return self._register(by, name=name, role=role, token_hash=token_hash, revoked=False)

    def revoke_rater(self, name: str, *, by: str = ORGANISER) -> Event:
        """Take a person's rights away; what they did stays."""
        known = self.state.raters.get(name)
        if known is None:
            raise InvalidInputError(f"There is no registered rater {name!r}.")
        return self._register(by, name=name, role=known.role, token_hash=None, revoked=True)

    def _register(self, by: str, **payload: Any) -> Event:
        # The first registration makes an organiser of whoever does it, or nobody could do the second.
        state, drafts = self.state, []
        if not state.raters and not (payload["name"] == by and payload["role"] == ORGANISER):
            first = {"name": by, "role": ORGANISER, "token_hash": None, "revoked": False}
            drafts.append(Draft("rater", by, payload=first))
        return self.append(*drafts, Draft("rater", by, payload=payload))[-1]

    def add_transform(
        self,
        name: str,
        files: str | Path | Sequence[str | Path],
        *,
        options: Mapping[str, Any] | None = None,
        replace: bool = False,
        rater: str = ORGANISER,
    ) -> Event:
        """Copy a registration result into the project and log it with its hashes.

        The copy is read first: one that cannot be read, or that has another dimension than the project, is not added.

        Parameters
        ----------
        name : str
            To show in tables.
        files : path or sequence of path
            One file, or all that belong together (a chain), in the order in which they are to be read. Files that they
            draw in (initial transforms of elastix) are copied with them.
        options : mapping, optional
            To be passed to `read_transform`; plain values.
        replace : bool
            Whether a transform that has this name already is replaced; by default it is an error.
        """
        refuse_reserved(name)
        if name in self.state.transforms and not replace:
            raise InvalidInputError(
                f"The project has a transform {name!r} already; choose another name, or pass replace=True."
            )
        aim, payload = copy_transform(self.folder, name, files, options or {})
        try:
            check_copy(self.folder, payload, self.fixed_grid, self.moving_grid)
            return self.append(Draft("transform", rater, payload=payload))[0]
        except Exception:
            shutil.rmtree(aim, ignore_errors=True)
            raise

    def transform_names(self) -> list[str]:
        """Names of the transforms, in the order in which they were added."""
        return list(self.state.transforms)

    def transform(self, name: str, *, options: Mapping[str, Any] | None = None) -> Transform:
        """Read a transform that was added, with the options that were stored with it.

        Parameters
        ----------
        name : str
            As given to `add_transform`.
        options : mapping, optional
            For `read_transform`; they replace stored ones.
        """
        record = self.state.transforms.get(name)
        if record is None:
            known = ", ".join(self.transform_names()) or "none"
            raise InvalidInputError(f"The project has no transform {name!r}; it has {known}.")
        return read_record(self.folder, record, self.fixed_grid, self.moving_grid, options)

    def remove_transform(self, name: str, *, rater: str = ORGANISER) -> Event:
        """Take a transform out of the project's tables; its files stay."""
        return self.append(Draft("transform", rater, payload={"name": name, "files": []}))[0]

    def rename_transform(self, name: str, new_name: str, *, rater: str = ORGANISER) -> Event:
        """Rename a transform; its files stay where they are."""
        record = self.state.transforms.get(name)
        if record is None:
            known = ", ".join(self.transform_names()) or "none"
            raise InvalidInputError(f"There is no transform {name!r} to rename; the project has {known}.")
        refuse_reserved(new_name)
        if new_name in self.state.transforms:
            raise InvalidInputError(f"The project has a transform {new_name!r} already; choose another name.")
        payload = {
            "name": new_name,
            "files": list(record.files),
            "hashes": list(record.hashes),
            "options": dict(record.options),
        }
        removal = Draft("transform", rater, payload={"name": name, "files": []})
        return self.append(Draft("transform", rater, payload=payload), removal)[0]

    def verify(self) -> VerifyReport:
        """Check hashes, the file of the log, its chain, and that it can be replayed; report every problem."""
        return verify_project(self.folder)

    def fingerprint(self) -> str:
        """Digest of the last event: the same for two copies exactly when their logs are."""
        events = self.events(max(0, self.state.generation - 1))
        return events[-1].digest if events else ""
