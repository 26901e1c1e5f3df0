/** The caller's WebSocket, as the function of a route receives it. */

/** The value of a parameter called `websocket` of the function of a GET route. The end of the function closes it. */
export interface ServerWebSocket extends AsyncIterable<string | Uint8Array<ArrayBuffer>> {
  /** The handshake: its URL and headers. */
  readonly request: Request;
  /** Subprotocols that the caller offers. */
  readonly protocols: readonly string[];
  /** The code and reason of the caller's Close frame; 1006 when it disconnected without one. */
  readonly closeCode: number | undefined;
  readonly closeReason: string;
  /** Opens it, with one of the offered subprotocols. Without this call the first use opens it, with none. */
  accept(options?: { readonly protocol?: string }): void;
  /** Sends text, bytes, or any other value as JSON; resolves once it is on its way. Rejects when it is closed. */
  send(data: unknown): Promise<void>;
  /** Returns the next message; undefined when it is closed. */
  receive(): Promise<string | Uint8Array<ArrayBuffer> | undefined>;
  /**
   * Closes it. `code`: 1000, or 3000 to 4999 for the application's own; rejects for one that may not be sent. Of `reason`
   * at most 123 bytes are sent.
   */
  close(code?: number, reason?: string): Promise<void>;
}
