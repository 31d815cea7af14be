/**
 * The line to the server: whether it is slow, and what is then asked for.
 *
 * Over a slow line tiles come rough first (JPEG, about a sixth of the bytes; samples of 16 bits packed and exact), and few
 * at once, so that a question never waits behind pictures. The exact samples follow when everything in sight is there.
 * @module
 */

/** Bytes a second below which a line is slow: a view of tiles would take longer than a glance. */
const SLOW = 500_000;
/** Smaller answers tell of the way there and back, not of the width of the line. */
const LEAST = 20_000;

/** What is known of the line; one for the page. */
export const line = {
  slow: false,
  /** Whether the last answer came slowly. One alone may have met a busy machine: then less is asked for at once, and still exact. */
  doubted: false,

  /**
   * @param {number} bytes that came
   * @param {number} milliseconds in which they came
   */
  learn(bytes, milliseconds) {
    if (bytes < LEAST) return;
    const slowly = (bytes / Math.max(milliseconds, 1)) * 1000 < SLOW;
    this.slow = slowly && (this.slow || this.doubted);
    this.doubted = slowly;
  },
};

/**
 * The samples of a tile from its answer; a rough one is decoded by the browser.
 * @param {ArrayBuffer} bytes
 * @param {Headers} headers
 * @param {number} channels
 * @returns {Promise<{bytes: ArrayBuffer, rough: boolean}>}
 */
export async function unpacked(bytes, headers, channels) {
  if (headers.get("Content-Type") !== "image/jpeg") return { bytes, rough: false };
  const picture = await createImageBitmap(new Blob([bytes], { type: "image/jpeg" }));
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.drawImage(picture, 0, 0);
  const { data } = context.getImageData(0, 0, picture.width, picture.height);
  const samples = new Uint8Array(picture.width * picture.height * channels);
  for (let i = 0, k = 0; i < samples.length; k += 4) for (let c = 0; c < channels; c++) samples[i++] = data[k + c];
  return { bytes: samples.buffer, rough: true };
}
