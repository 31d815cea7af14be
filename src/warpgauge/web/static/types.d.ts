/** Names for the wire format, which is generated from the server's models, and the state of the page. */

import type { Mark } from "./ellipsoid.js";
import type { Matrix, Vector } from "./linalg.js";
import type * as wire from "./wire.js";

export type Side = "fixed" | "moving";
export type ImageInfo = wire.ImageAnswer;
export type Project = wire.ProjectAnswer;
export type Prediction = wire.PredictionAnswer;
export type StartAnswer = wire.StartAnswer;
export type Query = wire.QueryAnswer;
export type Done = wire.DoneAnswer;
export type Saved = wire.Saved;
export type Conflict = wire.ConflictAnswer;
export type Row = wire.ListRowAnswer;
export type Progress = wire.ProgressAnswer;
export type Location = wire.LocationAnswer;

/** How the moving image is turned to look like the fixed one; scale: moving lengths per fixed length. */
export type Pose = { turn: Matrix; scale: number; degrees: number; mirrored: boolean };
export type Window = { low: number; high: number };
export type Channel = "colour" | "grey" | "haematoxylin" | "eosin" | "dab";
/** A channel that is shown in a colour, #rrggbb. */
export type Shown = { channel: number; colour: string };
/** One window for each channel; shown: of channels that are not colours. */
export type Colours = { windows: Window[]; invert: boolean; channel: Channel; shown: Shown[] };
export type MapChoice = { kind: "entropy" | "blended"; transform: string | null };
export type Leaf = "list" | "progress" | "compare" | "organiser";

export type State = {
  project: Project | null;
  query: Query | null;
  done: Done | null;
  start: StartAnswer | null;
  /** Place of the fixed image that was chosen: within the circle it answers the question, outside it is a landmark of one's own. */
  own: Vector | null;
  /** Where the model expects the match of the chosen place. */
  expected: Vector | null;
  /** Question about a placement that looks like a slip. */
  doubt: string | null;
  /** The answer of another tab, while the expert chooses. */
  conflict: { mark: Mark | null; words: string } | null;
  /** What is drawn and not yet accepted, or the answer that is looked at. */
  mark: Mark | null;
  /** Whether the mark differs from what is stored. */
  dirty: boolean;
  past: (Mark | null)[];
  future: (Mark | null)[];
  /** Size of the cursor: sharp, about, roughly. */
  ring: 0 | 1 | 2;
  saved: Saved | null;
  writing: "idle" | "saving";
  connection: "ok" | "lost" | "refused";
  /** Why the server cannot answer now, in its words. */
  trouble: string;
  /** One sentence below the pictures. */
  message: string;
  tone: "note" | "warning" | "error";
  /** Whether the key that hides the expectation is held. */
  hidden: boolean;
  /** Whether the key that shows the warped image is held. */
  warped: boolean;
  /** Screen pixels per unit of the fixed image, for both images. */
  scale: number;
  /** What each plane shows in its middle, in plane units. */
  centres: Record<Side, Record<number, Vector>>;
  /** Where the planes of an image meet, world. */
  cross: Record<Side, Vector | null>;
  colours: Record<Side, Colours>;
  /** Axis of the one plane shown, in 3D. */
  maximised: number | null;
  drawer: Leaf | null;
  /** Whether the View menu is open. */
  menu: boolean;
  /** Whether the reasons for "cannot tell" stand in the place of the bottom bar. */
  asking: boolean;
  /** Whether 2D images have an overview in a corner. */
  overview: boolean;
  /** Whether the images have a scale bar. */
  bar: boolean;
  map: MapChoice | null;
  /** The location whose marks the organiser sees. */
  judged: Location | null;
  /** The circle in which an organiser chooses a place that all are asked, and how many are chosen. */
  choosing: { point: Vector; radius: number; chosen: number } | null;
  pose: Pose | null;
  rows: Row[];
  /** A slip at least so long would show among the marks. */
  detectable: number | null;
  progress: Progress | null;
  /** Row of the list under the pointer. */
  picked: number | null;
};
