/** Prints the output of workers, each line after its endpoint's name, and keeps the last lines for error pages. */

const KEPT_LINES = 30;

export interface Printer {
  readonly print: (endpoint: string, text: string) => void;
  /** Returns the last lines of an endpoint. */
  readonly printed: (endpoint: string) => readonly string[];
}

export function printer(write: (line: string) => void): Printer {
  const kept = new Map<string, string[]>();
  return {
    print(endpoint, text) {
      const lines = kept.get(endpoint) ?? [];
      kept.set(endpoint, lines);
      lines.push(text);
      if (lines.length > KEPT_LINES) lines.shift();
      write(`${endpoint} | ${text}`);
    },
    printed: (endpoint) => kept.get(endpoint) ?? [],
  };
}
