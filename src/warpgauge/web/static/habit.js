/**
 * What a plain click and a drag mean before anything is corrected: how large the region is, and how wide a drag is
 * across. Both follow the image and what this expert did before. Pure functions, and a small memory.
 * @module
 */

import { keep, kept } from "./kept.js";

/** @typedef {{sizes: number[], share: number | null}} Habit sizes of the last accepted marks, world; second axis over first */

/** Across a drag the region is half as wide as along it, until the expert has shown another habit. */
export const FIRST_SHARE = 0.5;
/** A hand on a mouse is not more exact than this many screen pixels, at 99 %; nor a finger than so many. */
export const POINTING = 2;
const FINGERTIP = 8;
const REMEMBERED = 7;
const ENOUGH = 3;

/**
 * Radius of a plain click and, in words, where it comes from.
 * @param {object} known
 * @param {number} known.radius the project's, world
 * @param {number} known.sharpness length over which the moving image changes, world
 * @param {number} known.scale screen pixels per unit
 * @param {Habit} habit
 * @param {boolean} [touch] whether a finger does it
 * @returns {{radius: number, why: string}}
 */
export function clickRadius({ radius, sharpness, scale }, habit, touch = false) {
  const pointing = (touch ? FINGERTIP : POINTING) / scale;
  const why = touch ? "what a finger can hit at this zoom" : "what a click can hit at this zoom";
  if (habit.sizes.length >= ENOUGH) {
    const sorted = [...habit.sizes].sort((a, b) => a - b);
    const usual = sorted[Math.floor((sorted.length - 1) / 2)];
    return usual >= pointing ? { radius: usual, why: "your usual size" } : { radius: pointing, why };
  }
  const choices = [
    { radius, why: "the project's default" },
    { radius: sharpness, why: "as sharp as the image is" },
    { radius: pointing, why },
  ];
  return choices.reduce((best, one) => (one.radius > best.radius ? one : best));
}

/**
 * Second half-length of a region that was dragged.
 * @param {number} first the drag, world
 * @param {number} radius of a plain click
 * @param {Habit} habit
 * @returns {number}
 */
export function widthAcross(first, radius, habit) {
  return Math.max((habit.share ?? FIRST_SHARE) * first, Math.min(radius, first));
}

/**
 * The habit after a mark was accepted.
 * @param {Habit} habit
 * @param {number[]} axes half-lengths, longest first
 * @returns {Habit}
 */
export function habitAfter(habit, axes) {
  const size = Math.exp(axes.reduce((sum, axis) => sum + Math.log(axis), 0) / axes.length);
  const share = axes[axes.length - 1] / axes[0];
  // A disc says nothing about drags.
  return { sizes: [...habit.sizes, size].slice(-REMEMBERED), share: share < 0.95 ? Math.max(share, 0.1) : habit.share };
}

/** Keeps the habit of one rater in one project in the browser's storage. */
export class HabitKeeper {
  /** @param {string} key */
  constructor(key) {
    this.key = key;
    /** @type {Habit} */
    this.habit = { sizes: [], share: null };
    const known = kept(key);
    if (Array.isArray(known?.sizes)) this.habit = known;
  }

  /** @param {number[]} axes of a mark that was accepted */
  learn(axes) {
    this.habit = habitAfter(this.habit, axes);
    keep(this.key, this.habit);
  }
}
