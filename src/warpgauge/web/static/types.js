/**
 * The wire format, as the server's OpenAPI description has it, and the state of the page.
 * @module
 */

/** @import { Matrix, Vector } from "./linalg.js" */
/** @import { Channel } from "./stains.js" */
/** @import { View } from "./viewport.js" */
/** @import { Mark } from "./ellipsoid.js" */

/** @typedef {"fixed" | "moving"} Side */
/** @typedef {{size: number[], spacing: number[], origin: number[]}} Level */
/**
 * @typedef {object} ImageInfo
 * @property {number[]} size
 * @property {number[]} spacing
 * @property {number[]} origin
 * @property {Matrix} direction
 * @property {string} units
 * @property {number} channels
 * @property {"uint8" | "uint16"} dtype
 * @property {number} scale a sample's value is scale * sample + offset
 * @property {number} offset
 * @property {number} sharpness length over which the image changes, world units
 * @property {[number, number]} window samples to show dark and bright at first
 * @property {Level[]} levels
 * @property {number} tile edge of a tile
 * @property {string} version
 * @property {string} name
 */
/**
 * @typedef {object} Project
 * @property {string} name
 * @property {number} d
 * @property {string} units
 * @property {string} rater
 * @property {"rater" | "organiser" | "viewer"} role
 * @property {number} generation
 * @property {boolean} readonly
 * @property {boolean} compare whether added transforms may be seen
 * @property {string[]} transforms
 * @property {{hide_prediction: boolean, blind: boolean, alpha: number, default_radius: number, move_within: number, budget: number | null, skip_reasons: string[]}} settings
 * @property {Record<Side, ImageInfo>} images
 */
/**
 * @typedef {object} Prediction
 * @property {Vector} mean
 * @property {Matrix} covariance
 * @property {{half_lengths: Vector, axes: Matrix}} ellipse that holds the match with probability 1 - alpha; axes are columns
 * @property {number} alpha
 * @property {boolean} outside
 */
/** @typedef {{due: boolean, volunteered: number, wanted: number, sentence: string}} StartAnswer the guided start */
/** @typedef {"answer" | "start" | "own" | "nearby"} Task what the expert is doing: answering, or choosing a place as well */
/** @typedef {{kind: "place", point: Vector, fixed: Vector | null, flagged: boolean, covariance: Matrix, alpha: number, generation: number, time: string}} Placed */
/** @typedef {{kind: "skip", reason: string, text: string, generation: number, time: string}} Skipped */
/** @typedef {Placed | Skipped} Answer */
/**
 * @typedef {object} Query
 * @property {number} query
 * @property {number} number by which lists and marks call it
 * @property {number} position 1-based, among this rater's placements
 * @property {number | null} total where the project has a budget
 * @property {Vector} location
 * @property {number | null} gain
 * @property {string} why
 * @property {number} generation
 * @property {Prediction | null} prediction
 * @property {Answer | null} answer
 * @property {boolean} disabled
 * @property {boolean} [locked]
 * @property {boolean} [can_undo]
 * @property {boolean} [can_redo]
 * @property {boolean} [own_choice] the rater chose the place
 * @property {StartAnswer} [start]
 */
/** @typedef {{done: true, reasons: string[], generation?: number, can_undo?: boolean, can_redo?: boolean, start?: StartAnswer}} Done */
/** @typedef {{generation: number, time: string}} Saved */
/**
 * @typedef {object} Conflict
 * @property {string} error
 * @property {Record<string, unknown>} yours
 * @property {Answer | null} theirs
 * @property {number | null} query whose answer is newer
 * @property {number} generation
 */
/**
 * @typedef {object} Row one line of the list
 * @property {number} query
 * @property {Vector} location
 * @property {Vector | null} [fixed] where the expert moved the question to
 * @property {Vector | null} point
 * @property {Matrix | null} covariance
 * @property {Vector | null} residual
 * @property {number | null} distance how far from where the others put it
 * @property {number | null} alpha
 * @property {string} sentence
 * @property {boolean} excluded
 * @property {number | null} mahalanobis
 * @property {number | null} p
 * @property {boolean} outlier
 * @property {boolean} swapped
 * @property {boolean} disabled
 * @property {boolean} skipped
 * @property {string | null} reason
 * @property {string} text note of a skip
 * @property {string} chosen "asked", "moved" or "volunteered"
 * @property {boolean} flagged kept though it looked like a slip
 * @property {string} [time]
 * @property {string} [rater]
 */
/**
 * @typedef {object} Progress
 * @property {number} annotations
 * @property {number} targets
 * @property {number | null} mean_sd
 * @property {number | null} max_sd
 * @property {{annotations: number, mean_sd: number}[]} curve
 * @property {number | null} next_gain
 * @property {{rule: string, met: boolean, sentence: string}[]} stop
 * @property {number[]} seconds
 * @property {{order: string[], probability_best: number | null, decided: boolean, sentence: string} | null} ranking
 */
/** @typedef {{turn: Matrix, scale: number, degrees: number, mirrored: boolean}} Pose how the moving image is turned to look like the fixed one; scale: moving lengths per fixed length */
/** @typedef {{low: number, high: number}} Window */
/** @typedef {{windows: Window[], invert: boolean, gamma: number, channel: Channel}} Colours one window for each channel */
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
 * @property {string | null} doubt question about a placement that looks like a slip
 * @property {Mark | null} mark what is drawn and not yet accepted, or the answer that is looked at
 * @property {boolean} dirty whether the mark differs from what is stored
 * @property {(Mark | null)[]} past
 * @property {(Mark | null)[]} future
 * @property {Saved | null} saved
 * @property {"idle" | "saving"} writing
 * @property {"ok" | "lost" | "refused"} connection
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
 * @property {Pose | null} pose as the marks placed so far say
 * @property {Layout} layout
 * @property {boolean} aligning whether a proposed alignment is shown and asked about
 * @property {WarpMode} compare how the third pane compares; "off" shows the warped image alone
 * @property {boolean} ghost whether the other image shows where the pointer is
 * @property {boolean} turned whether the moving image is shown in that pose
 * @property {Row[]} rows
 * @property {Progress | null} progress
 * @property {number | null} picked row of the list under the pointer
 */

export {};
