/**
 * Names for the wire format (wire.js, generated from the server's models), and the state of the page.
 * @module
 */

/** @import { Matrix, Vector } from "./linalg.js" */
/** @import { Channel } from "./stains.js" */
/** @import { View } from "./viewport.js" */
/** @import { Mark } from "./ellipsoid.js" */

/** @typedef {"fixed" | "moving"} Side */
/** @typedef {import("./wire.js").Level} Level */
/** @typedef {import("./wire.js").ImageAnswer} ImageInfo */
/** @typedef {import("./wire.js").OverviewAnswer} Overview */
/** @typedef {import("./wire.js").ProjectAnswer} Project */
/** @typedef {import("./wire.js").PredictionAnswer} Prediction */
/** @typedef {import("./wire.js").NearbyAnswer} NearbyAnswer */
/** @typedef {import("./wire.js").StartAnswer} StartAnswer the guided start */
/** @typedef {"answer" | "start" | "own" | "nearby"} Task what the expert is doing: answering, or choosing a place as well */
/** @typedef {import("./wire.js").PlaceAnswer | import("./wire.js").SkipAnswer} Answer */
/** @typedef {import("./wire.js").QueryAnswer} Query */
/** @typedef {import("./wire.js").DoneAnswer} Done */
/** @typedef {import("./wire.js").Saved} Saved */
/** @typedef {import("./wire.js").ConflictAnswer} Conflict */
/** @typedef {import("./wire.js").ListRowAnswer} Row one line of the list */
/** @typedef {import("./wire.js").ProgressAnswer} Progress */
/** @typedef {{turn: Matrix, scale: number, degrees: number, mirrored: boolean}} Pose how the moving image is turned to look like the fixed one; scale: moving lengths per fixed length */
/** @typedef {{low: number, high: number}} Window */
/** @typedef {{channel: number, colour: string}} Shown a channel that is shown in a colour, #rrggbb */
/** @typedef {{windows: Window[], invert: boolean, gamma: number, channel: Channel, stains: Matrix | null, shown: Shown[]}} Colours one window for each channel; stains: the image's own; shown: of channels that are not colours */
/** @typedef {"off" | "entropy" | "sd" | "error" | "blended"} MapName */
/** @typedef {"off" | "opacity" | "checkerboard" | "flicker" | "difference" | "lens"} WarpMode how the warped moving image is laid over the fixed one */
/** @typedef {"two" | "three" | "overlay"} Layout */
/**
 * @typedef {object} State
 * @property {Project | null} project
 * @property {Query | null} query
 * @property {Done | null} done
 * @property {Task} task
 * @property {StartAnswer | null} start
 * @property {Vector | null} own point of the fixed image that the expert has chosen
 * @property {import("./wire.js").NearbyPoint[]} offered places near the question that stand out, while one is chosen
 * @property {string | null} doubt question about a placement that looks like a slip
 * @property {Mark | null} mark what is drawn and not yet accepted, or the answer that is looked at
 * @property {{base: Mark, mark: Mark} | null} proposal where the images say that the mark belongs, for the mark `base`
 * @property {boolean} dirty whether the mark differs from what is stored
 * @property {(Mark | null)[]} past
 * @property {(Mark | null)[]} future
 * @property {Saved | null} saved
 * @property {"idle" | "saving"} writing
 * @property {"ok" | "lost" | "refused"} connection
 * @property {string} trouble why the server cannot answer now, in its words; "" where it does not say
 * @property {string} message one sentence below the pictures
 * @property {"note" | "warning" | "error"} tone
 * @property {boolean} predictionHidden
 * @property {boolean} linked
 * @property {Record<Side, Record<number, View>>} views by plane
 * @property {Record<Side, Vector | null>} cross where the planes of an image meet, world
 * @property {Record<Side, Colours>} colours
 * @property {number | null} maximised axis of the one plane shown, in 3D
 * @property {"list" | "progress" | "compare" | null} drawer
 * @property {{candidates: boolean, foreground: boolean, former: boolean, grid: boolean, map: MapName, transform: string | null, warp: WarpMode, opacity: number, lensHeld: boolean}} overlays
 * @property {boolean} magnifier
 * @property {Record<Side, number | null>} context number of the further image that is shown in the place of an image
 * @property {boolean} minimap whether 2D images have an overview in a corner
 * @property {Pose | null} pose as the marks placed so far say
 * @property {Layout} layout
 * @property {WarpMode} compare how the third pane compares; "off" shows the warped image alone
 * @property {boolean} ghost whether the other image shows where the pointer is
 * @property {boolean} turned whether the moving image is shown in that pose
 * @property {Row[]} rows
 * @property {number | null} detectable a slip at least so long would show among the marks
 * @property {Progress | null} progress
 * @property {number | null} picked row of the list under the pointer
 */

export {};
