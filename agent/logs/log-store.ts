/** Worker output: the last lines in memory, per endpoint, and all of it in rotated files. */
import type { Logger } from 'pino';

import type { LogLine, LogsRequest } from '../../proto/gen/capstan/v1/nodes.ts';
import { messageOf } from '../../lib/to-error.ts';
import { visibleLine } from '../../lib/visible-text.ts';
import type { LogFiles } from './log-files.ts';

/** Lines kept in memory per endpoint. */
export const KEPT_LINES = 2_000;
/** Characters kept in memory per endpoint. */
const KEPT_CHARACTERS = 2_000_000;
/** Characters kept in memory for all endpoints; beyond it, the endpoints that printed longest ago are dropped. */
export const KEPT_IN_ALL = 64_000_000;
/** Endpoints whose lines are kept in memory. */
const MOST_ENDPOINTS = 1_000;
/** Overhead of a line besides its text, characters. */
const LINE_CHARACTERS = 100;
/** Most lines of one response. */
const MAX_ANSWER = 1_000;
const DEFAULT_ANSWER = 200;
/** Limit of text that waits for the disk, characters; beyond it lines are missing in the file, and a line says so. */
const MAX_WAITING = 8_000_000;

interface EndpointLog {
  lines: LogLine[];
  characters: number;
  waiting: string[];
  waitingCharacters: number;
  missed: number;
  writing: Promise<void> | undefined;
}

export class LogStore {
  readonly #files: LogFiles;
  readonly #log: Logger;
  readonly #endpoints = new Map<string, EndpointLog>();
  /** Of all endpoints. */
  #characters = 0;
  #failed = false;

  constructor(files: LogFiles, log: Logger) {
    this.#files = files;
    this.#log = log;
  }

  add(line: LogLine): void {
    const endpoint = this.#endpointLog(line.endpointId);
    endpoint.lines.push(line);
    this.#characters -= endpoint.characters;
    endpoint.characters += sizeOf(line);
    if (endpoint.lines.length > KEPT_LINES * 2 || endpoint.characters > KEPT_CHARACTERS) trim(endpoint);
    this.#characters += endpoint.characters;
    this.#queueForFile(line, endpoint);
    // In order of last output, the most recent last.
    this.#endpoints.delete(line.endpointId);
    this.#endpoints.set(line.endpointId, endpoint);
    while (this.#characters > KEPT_IN_ALL || this.#endpoints.size > MOST_ENDPOINTS) if (!this.#forgetOldest()) return;
  }

  /** Drops the lines of the endpoint that printed longest ago. Returns false when there are none. */
  #forgetOldest(): boolean {
    for (const [id, endpoint] of this.#endpoints) {
      const isWriting = endpoint.writing !== undefined;
      if (isWriting && endpoint.characters === 0) continue;
      this.#characters -= endpoint.characters;
      endpoint.lines = [];
      endpoint.characters = 0;
      if (!isWriting) this.#endpoints.delete(id);
      return true;
    }
    return false;
  }

  /** Returns the requested last lines, oldest first. */
  find({ endpointId, workerId, limit, afterMs }: Omit<LogsRequest, 'requestId'>): LogLine[] {
    const sources = endpointId === '' ? [...this.#endpoints.values()] : [this.#endpoints.get(endpointId)];
    const found = sources
      .flatMap((endpoint) => endpoint?.lines.slice(-KEPT_LINES) ?? [])
      .filter((line) => line.atMs > afterMs && (workerId === '' || line.workerId === workerId));
    if (sources.length > 1) found.sort((a, b) => Number(a.atMs - b.atMs));
    return found.slice(-Math.min(limit || DEFAULT_ANSWER, MAX_ANSWER));
  }

  /** Resolves when all lines are in their files. */
  async close(): Promise<void> {
    await Promise.all([...this.#endpoints.values()].flatMap(({ writing }) => writing ?? []));
  }

  #endpointLog(endpointId: string): EndpointLog {
    let endpoint = this.#endpoints.get(endpointId);
    if (endpoint === undefined) {
      endpoint = { lines: [], characters: 0, waiting: [], waitingCharacters: 0, missed: 0, writing: undefined };
      this.#endpoints.set(endpointId, endpoint);
    }
    return endpoint;
  }

  #queueForFile(line: LogLine, endpoint: EndpointLog): void {
    if (endpoint.waitingCharacters > MAX_WAITING) {
      endpoint.missed += 1;
      return;
    }
    const at = new Date(Number(line.atMs)).toISOString();
    // The file may be read on a terminal.
    const text = `${visibleLine(`${at} ${line.workerId} ${line.stream} ${line.jobId || '-'} ${line.text}`)}\n`;
    endpoint.waiting.push(text);
    endpoint.waitingCharacters += text.length;
    endpoint.writing ??= this.#drain(line.endpointId, endpoint).finally(() => {
      endpoint.writing = undefined;
    });
  }

  async #drain(endpointId: string, endpoint: EndpointLog): Promise<void> {
    // The lines of one turn, or those that arrived during the previous write, are one write.
    await new Promise((resolve) => setImmediate(resolve));
    while (endpoint.waiting.length > 0) {
      if (endpoint.missed > 0) endpoint.waiting.push(`(${endpoint.missed} lines are missing: the disk was too slow)\n`);
      const text = endpoint.waiting.join('');
      endpoint.waiting = [];
      endpoint.waitingCharacters = 0;
      endpoint.missed = 0;
      try {
        await this.#files.append(endpointId, text);
        this.#failed = false;
      } catch (error) {
        // Logs in memory still work; one line reports the failing disk.
        if (!this.#failed) this.#log.warn({ error: messageOf(error) }, 'writing worker logs failed');
        this.#failed = true;
      }
    }
  }
}

function trim(endpoint: EndpointLog): void {
  let from = Math.max(0, endpoint.lines.length - KEPT_LINES);
  let characters = 0;
  for (let at = endpoint.lines.length - 1; at >= from; at -= 1) {
    const line = endpoint.lines[at];
    characters += line === undefined ? 0 : sizeOf(line);
    if (characters > KEPT_CHARACTERS / 2) from = at + 1;
  }
  endpoint.lines = endpoint.lines.slice(from);
  endpoint.characters = endpoint.lines.reduce((sum, line) => sum + sizeOf(line), 0);
}

function sizeOf({ text }: LogLine): number {
  return text.length + LINE_CHARACTERS;
}
