/**
 * Reads the output of the parts: JSON lines of pino, formatted for the terminal, and other text, such as a crash
 * report.
 */
import { z } from 'zod';

const lineSchema = z.object({
  level: z.number(),
  msg: z.string().optional(),
  err: z.object({ message: z.string() }).optional(),
  // Facts that tell what the message is about, and why.
  endpointName: z.string().optional().catch(undefined),
  endpoint: z.string().optional().catch(undefined),
  nodeName: z.string().optional().catch(undefined),
  worker: z.string().optional().catch(undefined),
  job: z.string().optional().catch(undefined),
  reason: z.string().optional().catch(undefined),
  how: z.string().optional().catch(undefined),
  error: z.string().optional().catch(undefined),
});

type Line = z.output<typeof lineSchema>;

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
  const { level, msg = '', err, reason, how, error } = parsed.data;
  const about = subjectOf(parsed.data);
  const parts = [about === '' ? msg : `${msg} (${about})`, reason ?? how ?? error, err?.message].filter(
    (part) => part !== undefined && part !== '',
  );
  const text = [...new Set(parts)].join(': ').replaceAll(/\s+/g, ' ').trim();
  return { level: level >= ERROR ? 'error' : 'warn', text: text === '' ? 'no message' : text };
}

/** `endpoint hello, node gpu-1, worker w1`; empty when the line names none of them. */
function subjectOf({ endpointName, endpoint, nodeName, worker, job }: Line): string {
  const named: readonly (readonly [string, string | undefined])[] = [
    ['endpoint', endpointName ?? endpoint],
    ['node', nodeName],
    ['worker', worker],
    ['job', job],
  ];
  return named.flatMap(([what, name]) => (name === undefined || name === '' ? [] : [`${what} ${name}`])).join(', ');
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
