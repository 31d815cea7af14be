/**
 * The time that a rater looked at a query: only while the page is visible.
 * @module
 */

export class Stopwatch {
  constructor() {
    this.gone = 0;
    this.since = performance.now();
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "hidden") this.gone += this.running;
      this.since = performance.now();
    });
  }

  /** Milliseconds since it was last started or the page came back. */
  get running() {
    return performance.now() - this.since;
  }

  restart() {
    this.gone = 0;
    this.since = performance.now();
  }

  /** To the millisecond. */
  get seconds() {
    const visible = document.visibilityState !== "hidden";
    return Math.round(this.gone + (visible ? this.running : 0)) / 1000;
  }
}
