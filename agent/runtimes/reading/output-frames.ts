/** Parses a container's output as the engine sends it: frames, each of one of two streams. */

const HEADER_BYTES = 8;
const STDERR = 2;

/** Splits the engine's byte stream (Engine API, "Stream format") into pieces of stdout and stderr. */
export class OutputFrames {
  readonly #onPiece: (stream: 'stdout' | 'stderr', piece: Buffer) => void;
  #have: Buffer = Buffer.alloc(0);
  #stream: 'stdout' | 'stderr' = 'stdout';
  /** Bytes missing in the current frame. */
  #left = 0;

  constructor(onPiece: (stream: 'stdout' | 'stderr', piece: Buffer) => void) {
    this.#onPiece = onPiece;
  }

  push(data: Buffer): void {
    let bytes = this.#have.length === 0 ? data : Buffer.concat([this.#have, data]);
    for (;;) {
      if (this.#left > 0) {
        const piece = bytes.subarray(0, this.#left);
        bytes = bytes.subarray(piece.length);
        this.#left -= piece.length;
        if (piece.length > 0) this.#onPiece(this.#stream, piece);
        if (this.#left > 0) break;
      }
      if (bytes.length < HEADER_BYTES) break;
      this.#stream = bytes[0] === STDERR ? 'stderr' : 'stdout';
      this.#left = bytes.readUInt32BE(4);
      bytes = bytes.subarray(HEADER_BYTES);
    }
    // Whoever pushed the bytes may use their memory again.
    this.#have = Buffer.from(bytes);
  }
}
