"""A project on disk: images, points, settings, and the log of everything that was done."""

from __future__ import annotations

import importlib
import shutil
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from warpgauge.candidates import Foreground, LabelRegions
from warpgauge.core.arrays import Bools
from warpgauge.errors import InvalidInputError, SuspiciousDataWarning, say
from warpgauge.geometry import Floats, Grid
from warpgauge.io.files import PathLike
from warpgauge.io.images import Image
from warpgauge.io.transforms import Transform
from warpgauge.project import creation, transforms
from warpgauge.project.document import Document, ImageRecord, read_document, write_document
from warpgauge.project.errors import ProjectError, StorageError, project_content
from warpgauge.project.events import (
    Align,
    ChangeSettings,
    Event,
    LinkedImage,
    Register,
    Relink,
    SetTransform,
    apply,
    authorise,
    check_sequence,
    read_events,
    replay,
)
from warpgauge.project.foregrounds import Wanted, load_foreground, make_foregrounds, missing_area
from warpgauge.project.images import Spacing, image_problem, missing_image, open_image, relinked
from warpgauge.project.integrity import VerifyReport, verify_project
from warpgauge.project.log import MEND, Log, Row
from warpgauge.project.mirror import Mirror
from warpgauge.project.permission import check_permission, permit_new
from warpgauge.project.points import Progress, load
from warpgauge.project.settings import Settings
from warpgauge.project.state import State
from warpgauge.project.stores import open_log
from warpgauge.project.values import ORGANISER, PROGRAM, Role

if TYPE_CHECKING:
    from warpgauge.registration.rough_alignment import Alignment

# So long after a refused write others are expected to be refused: pages that wait try again at least every 5 seconds.
REFUSED_SECONDS = 6.0


class StateLock:
    """A lock that a thread may take several times over; while it is held, the log is read once and not again.

    ``fresh`` is whether the state was brought up to date since the lock was taken.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self.fresh = False

    def acquire(self, blocking: bool = True) -> bool:
        """Take the lock; return False where another thread holds it and ``blocking`` is False."""
        taken = self._lock.acquire(blocking=blocking)
        if taken:
            self._depth += 1
            self.fresh = self.fresh and self._depth > 1
        return taken

    def release(self) -> None:
        """Release the lock once; it is free after as many calls as it was taken."""
        self._depth -= 1
        self._lock.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Project:
    """A project on disk. Make one with `create`, open one with `open`.

    May be used by several threads; several processes may each open the same folder. ``folder`` is its path, ``log`` the
    store of the events, and ``known`` the state when this process last looked at the log, which is not to be changed.
    Hold ``lock`` to read several things of one state, which then stays as it is.
    """

    def __init__(self, folder: Path, document: Document, log: Log) -> None:
        self.folder, self.log = folder, log
        self.lock = StateLock()
        self._document = document
        self._refused: tuple[float, StorageError] | None = None
        self._opened_readonly = log.readonly
        self.known = State()
        self._document_at = 0
        rows = log.read()
        self._follow(rows)
        self._document_at = self.known.images_generation
        problem = log.missing_end(rows)
        if problem is not None:
            warnings.warn(f"{problem} Nothing can be saved: {MEND}.", SuspiciousDataWarning, stacklevel=3)

    def annotate(self, *, rater: str | None = None, height: int = 720, jupyter: str | None = None) -> Any:
        """Open the annotator inside a notebook's cell, ``height`` pixels high, served from this process.

        The `Annotator` that is returned shows the page; its ``annotations()`` and ``landmarks()`` are what was
        annotated until now. ``jupyter`` is the notebook's address where only that is reachable: `warpgauge.annotate`.
        """
        # The page lies above the project; only this door for notebooks leads up to it.
        notebook = importlib.import_module("warpgauge.web.notebook")
        return notebook.annotate_project(self, rater=rater, height=height, jupyter=jupyter)

    @classmethod
    def create(
        cls,
        folder: PathLike,
        *,
        fixed: PathLike,
        moving: PathLike,
        fixed_mask: PathLike | None = None,
        moving_mask: PathLike | None = None,
        regions: PathLike | None = None,
        missing: PathLike | None = None,
        foreground: Wanted = "auto",
        targets: Any = None,
        candidates: Any = None,
        spacing: Spacing | Mapping[str, Spacing] = None,
        units: str | None = None,
        copy: bool = False,
        settings: Settings | Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        database: str | None = None,
    ) -> Project:
        """Make a project and open it.

        Parameters
        ----------
        folder : path
            Must not exist, or be empty.
        fixed, moving : path
            Images, referenced by a path relative to the folder unless ``copy`` copies them into it.
        fixed_mask, moving_mask : path, optional
            Where it is not zero there are candidates and targets; or the moving image shows what could be marked.
        regions : path, optional
            Label image on the grid of the fixed image: parts that may move on their own. How much they do is learned.
        missing : path, optional
            Mask on the grid of the fixed image: what has no match in the moving image, such as a tear. No candidates
            and targets lie there, and maps have no values.
        foreground : {"auto", "none"}
            Where no mask is given: find the tissue or body, and take candidates and targets from it, or use the whole
            image.
        targets, candidates : optional
            See `warpgauge.project.points.make_targets` and `make_candidates`: None, a number, an array of world
            points, a landmark file, or a mapping with ``kind``.
        spacing, units : optional
            As `warpgauge.io.images.read_image` takes them, for both images; spacing also as a mapping with ``fixed``
            and ``moving``.
        progress : callable, optional
            Called with the number of blocks done and of all blocks while candidates are sought.
        database : str, optional
            ``postgresql://user@host/name``: keep the log in this database instead of a file of the folder.
        """
        aim = Path(folder)
        creation.check_free(aim)
        chosen = Settings.of(settings)
        if regions is not None and chosen.model == "paper":
            raise InvalidInputError("Regions need the default model: the paper's has one kernel for the whole image.")
        given = {"fixed": fixed, "moving": moving, "fixed_mask": fixed_mask, "moving_mask": moving_mask}
        given |= {"regions": regions, "missing": missing}
        paths = {role: Path(path) for role, path in given.items() if path is not None}
        spacings = creation.spacings_of(spacing)
        images = creation.read_images(paths, spacings, units)
        areas = make_foregrounds(foreground, images)
        asked, judged = creation.make_points(images, areas, candidates, targets, progress)
        creation.build(
            aim, images, asked, judged, areas, chosen, spacings=spacings, units=units, copy=copy, database=database
        )
        return cls.open(aim)

    @classmethod
    def open(cls, folder: PathLike, *, check_images: bool = True, trust: bool | None = None) -> Project:
        """Open the project in a folder; images that are missing or changed are warned of, with ``check_images``.

        ``trust`` lets a project that was not made here reach outside its folder, and records that; None is as recorded,
        or as the variable ``WARPGAUGE_TRUST`` says.
        """
        path = Path(folder)
        document = read_document(path)
        check_permission(path, document, trust)
        log = open_log(path, document)
        if log.project_id != document.id:
            raise ProjectError(
                f"The annotation log in {str(path)!r} belongs to another project than its project.json; files of two "
                f"projects were mixed: put back the right one."
            )
        project = cls(path, document, log)
        if check_images:
            for problem in project.image_problems():
                warnings.warn(problem, SuspiciousDataWarning, stacklevel=2)
        return project

    def close(self) -> None:
        """Close the log."""
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Project {self.folder.name!r}: {self.d}D, {self.state.generation} events>"

    @property
    def document(self) -> Document:
        """What ``project.json`` says; read again when another process has linked images anew."""
        generation = self.known.images_generation
        if generation != self._document_at:
            self._document, self._document_at = read_document(self.folder), generation
        return self._document

    @property
    def settings(self) -> Settings:
        """How it is annotated: what ``project.json`` says, with all changes of the log since."""
        changes = self.known.settings
        return self.document.settings.changed(**changes) if changes else self.document.settings

    @property
    def draw_seed(self) -> int:
        """Secret seed of where drawn questions, controls and repeats fall; that of the settings where it is given."""
        given = self.settings.audit_seed
        return self.document.draw_seed if given is None else given

    @property
    def readonly(self) -> bool:
        """Whether the folder could not be opened for writing."""
        return self.log.readonly

    @property
    def id(self) -> str:
        """Identifier, the same for all copies of the project."""
        return self.document.id

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
        """Tissue or body in the fixed image; None where it was switched off."""
        return self._foreground("fixed")

    @cached_property
    def moving_foreground(self) -> Foreground | None:
        """Tissue or body in the moving image; None as for the fixed one."""
        return self._foreground("moving")

    def _foreground(self, side: str) -> Foreground | None:
        record = self.document.foregrounds.get(side)
        return None if record is None else load_foreground(self.folder, record)

    @cached_property
    def regions(self) -> LabelRegions | None:
        """Parts of the fixed image that may move on their own, by label image; None where there are none."""
        if "regions" not in self.document.images:
            return None
        return LabelRegions.of(self.image("regions").read(), self.fixed_grid, "The label image of the regions")

    @cached_property
    def masked_missing(self) -> Foreground | None:
        """What has no match in the moving image, by its mask; None where the project has none."""
        if "missing" not in self.document.images:
            return None
        return missing_area(self.image("missing").read(), self.fixed_grid)

    def image(self, role: str) -> Image:
        """Open an image; raises when it is missing or changed."""
        if role not in self.document.images:
            raise InvalidInputError(f"The project has no {role.replace('_', ' ')}.")
        return open_image(self.folder, self.document.images[role], role)

    def image_problems(self) -> list[str]:
        """Return which images are missing or changed, one sentence each."""
        problems = (image_problem(self.folder, record, role) for role, record in self.document.images.items())
        return [problem for problem in problems if problem is not None]

    def missing_images(self) -> list[str]:
        """Return which images are not where they should be, one sentence each; no image is opened."""
        problems = (missing_image(self.folder, record, role) for role, record in self.document.images.items())
        return [problem for problem in problems if problem is not None]

    @property
    def alignment(self) -> Alignment | None:
        """The rough alignment, if one was proposed and accepted; None otherwise."""
        record = self.state.alignment
        if record is None or not record.accepted:
            return None
        from warpgauge.registration.rough_alignment import Alignment

        return Alignment.from_dict(record.model_dump())

    @property
    def missing(self) -> Callable[[Floats], Bools] | None:
        """Returns which (n, d) points of the fixed image have no match, by the project's mask; None without one."""
        mask = self.masked_missing
        return None if mask is None else mask.contains

    @property
    def judged_targets(self) -> Floats:
        """Targets at which transforms are judged: those where something has a match."""
        missing = self.missing
        return self.targets if missing is None else self.targets[~missing(self.targets)]

    def propose_alignment(self) -> Alignment:
        """Find a rough alignment of the two images and record it in the log, for a person to accept or refuse."""
        from warpgauge.registration.rough_alignment import align

        self._check_alignable()
        images = self.image("fixed"), self.image("moving")
        alignment = align(*images, self.fixed_foreground, self.moving_foreground)
        self.append(Align(rater=PROGRAM, accepted=None, **alignment.to_dict()))
        return alignment

    def answer_alignment(self, accepted: bool, rater: str = ORGANISER) -> Event:
        """Accept or refuse the alignment that was proposed last; an accepted one is the mean from then on."""
        record = self.state.alignment
        if record is None:
            raise InvalidInputError("No alignment was proposed; run warpgauge align, or Project.propose_alignment.")
        self._check_alignable()
        answer = record.model_copy(update={"rater": rater, "accepted": bool(accepted), "generation": 0, "time": ""})
        return self.append(answer)[0]

    def _check_alignable(self) -> None:
        """Refuse an alignment where raters must not be given a hint, or the model has no place for it."""
        if self.settings.hide_prediction:
            raise InvalidInputError(
                "This project hides predictions from its raters (hide_prediction), so it is not aligned beforehand; "
                "change that setting first."
            )
        if self.settings.model == "paper":
            raise InvalidInputError("The paper's model has the identity as its mean; use the default model to align.")

    @property
    def state(self) -> State:
        """What the log says, with events of other processes: now, or as first read since the caller took the lock.

        It is not to be changed.
        """
        with self.lock:
            if not self.lock.fresh:
                self.sync()
            return self.known

    def sync(self) -> None:
        """Read what other processes have written since."""
        with self.lock:
            self._follow(self.log.read(self.known.generation))
            self.lock.fresh = True

    def _follow(self, rows: Iterable[Row]) -> None:
        """Advance the state by what stands in the log."""
        with project_content("The annotation log", MEND):
            replay(read_events(row for row in rows if row[0] > self.known.generation), self.d, self.known)

    def events(self, after: int = 0) -> list[Event]:
        """Return the events of the log with a generation above ``after``."""
        return list(read_events(self.log.read(after)))

    def append(self, *new: Event) -> tuple[Event, ...]:
        """Write events, all or none; when this returns they are on the disk.

        Events that may not follow the state, as it is when no other process can write, are an `InvalidInputError`, a
        `ConflictError` or a `NotAllowedError`. After a `StorageError` nothing was written, but for an event that only a
        mirror could not take.
        """

        def decide(state: State) -> Sequence[Event]:
            check_sequence(state, new)
            return new

        return self._write(decide)

    def _write(self, decide: Callable[[State], Sequence[Event]]) -> tuple[Event, ...]:
        """Write the events that ``decide`` returns while no other process can write; none where it raises."""
        decided: list[Event] = []

        def on_fresh(fresh: list[Row]) -> list[Row]:
            self._follow(fresh)
            decided.extend(decide(self.known))
            return [event.columns() for event in decided]

        with self.lock:
            try:
                rows = self.log.append(self.known.generation, on_fresh)
            except StorageError as error:
                self._refused = time.monotonic(), error
                raise
            self._refused = None
            written = []
            for event, row in zip(decided, rows, strict=True):
                written.append(event.model_copy(update={"generation": row[0], "time": row[1]}))
                apply(self.known, written[-1])
            self.lock.fresh = True
            return tuple(written)

    def check_ready(self) -> None:
        """Raise while the log cannot be read, or writes are refused; one that was opened to be read is ready."""
        self.log.last_generation()
        if self._refused is not None and time.monotonic() - self._refused[0] < REFUSED_SECONDS:
            raise self._refused[1]
        if self.readonly and not self._opened_readonly:
            raise StorageError("The log may only be read now, so nothing can be saved.")

    def change_settings(self, rater: str = ORGANISER, **changes: Any) -> Settings:
        """Change settings, for all who use the project; the change is an event of the log."""
        if changes:
            self.settings.changed(**changes)  # names and values that cannot be are refused before anything is locked
            self.append(ChangeSettings(rater=rater, changes=changes))
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
        records: dict[str, ImageRecord] = {}
        links: dict[str, LinkedImage] = {}
        for role, path in given.items():
            if path is None:
                continue
            if role not in self.document.images:
                raise InvalidInputError(f"The project has no {role.replace('_', ' ')} to relink.")
            record = relinked(self.folder, self.document.images[role], role, Path(path), accept_changed)
            records[role] = record
            links[role] = LinkedImage(path=record.path, content_hash=record.content_hash)
        if not records:
            return
        event = Relink(rater=rater, images=links)
        former: list[Document] = []

        def decide(state: State) -> list[Event]:
            # While no other process can write, so that two of them cannot cross.
            authorise(state, event)
            former.append(read_document(self.folder))
            images = {**former[0].images, **records}
            write_document(self.folder, former[0].model_copy(update={"images": images}))
            return [event]

        try:
            self._write(decide)
        except BaseException:
            if former:
                write_document(self.folder, former[0])
            raise
        permit_new(self.folder, self.document)

    def use_mirror(self, folder: PathLike) -> None:
        """Append every further event also to a second copy of the log in another folder, before it is acknowledged."""
        with self.lock:
            self.log.use_mirror(Mirror(Path(folder), self.folder, self.id))

    def add_rater(self, name: str, role: Role = "rater", *, by: str = ORGANISER) -> Event:
        """Register a person, or change their role.

        The first registration makes an organiser of whoever does it, or nobody could do the second.
        """
        person = Register(rater=by, name=name, role=role)
        first = []
        if not self.state.raters and (name, role) != (by, ORGANISER):
            first = [Register(rater=by, name=by, role=ORGANISER)]
        return self.append(*first, person)[-1]

    def add_transform(
        self,
        name: str,
        files: str | Path | Sequence[str | Path],
        *,
        options: Mapping[str, Any] | None = None,
        replace: bool = False,
        reference: bool = False,
        rater: str = ORGANISER,
    ) -> Event:
        """Copy a registration result into the project and log it with its hashes, once its copy could be read.

        The ``files`` are one, or all that belong together (a chain) in the order in which they are to be read; those
        that they draw in (initial transforms of elastix) are copied with them. The ``options`` are plain values for
        `read_transform`. A transform of the same name is an error unless ``replace``. A ``reference`` never saw an
        annotation, and belongs to the panel that the other transforms are judged beside.
        """
        transforms.refuse_reserved(name)
        if name in self.state.transforms and not replace:
            raise InvalidInputError(
                f"The project has a transform {name!r} already; choose another name, or pass {say('replace', True)}."
            )
        aim, added = transforms.copy_transform(self.folder, name, files, options or {}, rater, reference)
        try:
            transforms.check_copy(self.folder, added, self.fixed_grid, self.moving_grid)
            return self.append(added)[0]
        except Exception:
            shutil.rmtree(aim, ignore_errors=True)
            raise

    def transform_names(self) -> list[str]:
        """Names of the transforms, in the order in which they were added."""
        return list(self.state.transforms)

    def reference_names(self) -> list[str]:
        """Names of the references: registrations that never saw an annotation."""
        return [name for name, record in self.state.transforms.items() if record.reference]

    def transform(self, name: str, *, options: Mapping[str, Any] | None = None) -> Transform:
        """Read a transform that was added; ``options``, for `read_transform`, replace those stored with it."""
        record = self.state.transforms.get(name)
        if record is None:
            known = ", ".join(self.transform_names()) or "none"
            raise InvalidInputError(f"The project has no transform {name!r}; it has {known}.")
        return transforms.read_record(self.folder, record, self.fixed_grid, self.moving_grid, options)

    def is_unchanged(self, name: str) -> bool:
        """Return whether the files of a transform are those that were added, by their hashes."""
        return transforms.is_unchanged(self.folder, self.state.transforms[name])

    def remove_transform(self, name: str, *, rater: str = ORGANISER) -> Event:
        """Take a transform out of the project's tables; its files stay."""
        return self.append(SetTransform(rater=rater, name=name))[0]

    def verify(self) -> VerifyReport:
        """Check hashes, the file of the log, its chain, and that it can be replayed; report every problem."""
        return verify_project(self.folder)

    def fingerprint(self, generation: int | None = None) -> str:
        """Digest of an event, the last one by default; two logs have the same one exactly when they are equal so far.

        Empty where there is no such event.
        """
        at = self.state.generation if generation is None else generation
        rows = self.log.read(at - 1) if at > 0 else []
        return str(rows[0][-1]) if rows else ""
