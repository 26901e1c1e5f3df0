/**
 * Reads the output of the parts: JSON lines of pino, formatted for the terminal, and other text, such as a crash
 * report.
 */
import { z } from 'zod';

const lineSchema = z.object({
  level: z.number(),
  msg: z.string().optional(),
  err: z.object({ message: z.string() }).optional(),
});

/** pino's levels. */
const WARN = 40;
const ERROR = 50;

export interface Notice {
  readonly level: 'info' | 'warn' | 'error';
  readonly text: string;
}

/** Returns a warning or an error of a part in one line for people; null for anything else. */
export function readNotice(line: string): Notice | null {
  if (!line.startsWith('{')) return null;
  let raw: unknown;
  try {
    raw = JSON.parse(line);
  } catch {
    return null; // not a log line; the file has it unchanged
  }
  const parsed = lineSchema.safeParse(raw);
  if (!parsed.success || parsed.data.level < WARN) return null;
  const { level, msg, err } = parsed.data;
  const parts = [msg, err?.message].filter((part) => part !== undefined && part !== '');
  const text = [...new Set(parts)].join(': ').replaceAll(/\s+/g, ' ').trim();
  return { level: level >= ERROR ? 'error' : 'warn', text: text === '' ? 'no message' : text };
}

/** Splits the output of a process into lines; a longer line is split at the bound. */
export function splitLines(onLine: (line: string) => void, longest = 256 * 1024): { push(chunk: Buffer): void; end(): void } {
  const decoder = new TextDecoder();
  let rest = '';
  const push = (text: string): void => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    lines.forEach(onLine);
    if (rest.length <= longest) return;
    onLine(rest);
    rest = '';
  };
  return {
    push: (chunk) => push(decoder.decode(chunk, { stream: true })),
    end: () => {
      push(decoder.decode());
      if (rest !== '') onLine(rest);
      rest = '';
    },
  };
}
