/** What workers printed: the last lines in memory, per endpoint, and all of it in rotated files. */
import { mkdir, rename, stat, appendFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Logger } from 'pino';

import type { LogLine, LogsRequest } from '../../proto/gen/capstan/v1/nodes.ts';
import { messageOf } from '../../proto/thrown.ts';
import { visibleLine } from '../../proto/visible-text.ts';

/** Lines kept in memory for an endpoint. */
export const KEPT_LINES = 2_000;
/** Characters kept in memory for an endpoint. */
const KEPT_CHARACTERS = 2_000_000;
/** Lines of one answer, at most. */
const MAX_ANSWER = 1_000;
const DEFAULT_ANSWER = 200;
/** Text that waits for the disk, characters; beyond it the file misses lines and says so. */
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
  readonly #folder: string;
  readonly #fileBytes: number;
  readonly #log: Logger;
  readonly #endpoints = new Map<string, EndpointLog>();
  #failed = false;

  /** Files are `<folder>/<endpoint>.log`, and `.log.1` before it, each up to about `fileBytes`. */
  constructor(folder: string, fileBytes: number, log: Logger) {
    this.#folder = folder;
    this.#fileBytes = fileBytes;
    this.#log = log;
  }

  add(line: LogLine): void {
    const endpoint = this.#endpointLog(line.endpointId);
    endpoint.lines.push(line);
    endpoint.characters += line.text.length;
    if (endpoint.lines.length > KEPT_LINES * 2 || endpoint.characters > KEPT_CHARACTERS) trim(endpoint);
    this.#queueForFile(line, endpoint);
  }

  /** The last lines that the request asks for, oldest first. */
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
    // Somebody reads the file on a terminal.
    const text = `${visibleLine(`${at} ${line.workerId} ${line.stream} ${line.jobId || '-'} ${line.text}`)}\n`;
    endpoint.waiting.push(text);
    endpoint.waitingCharacters += text.length;
    endpoint.writing ??= this.#drain(line.endpointId, endpoint).finally(() => {
      endpoint.writing = undefined;
    });
  }

  async #drain(endpointId: string, endpoint: EndpointLog): Promise<void> {
    // One turn's lines, or what came while the disk was busy, are one write.
    await new Promise((resolve) => setImmediate(resolve));
    while (endpoint.waiting.length > 0) {
      if (endpoint.missed > 0) endpoint.waiting.push(`(${endpoint.missed} lines missing here: the disk was too slow)\n`);
      const text = endpoint.waiting.join('');
      endpoint.waiting = [];
      endpoint.waitingCharacters = 0;
      endpoint.missed = 0;
      try {
        await this.#append(join(this.#folder, `${fileName(endpointId)}.log`), text);
        this.#failed = false;
      } catch (error) {
        // Logs in memory still serve; one line tells of a disk that does not.
        if (!this.#failed) this.#log.warn({ error: messageOf(error) }, 'worker logs cannot be written');
        this.#failed = true;
      }
    }
  }

  async #append(path: string, text: string): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const size = await stat(path).then(
      (found) => found.size,
      () => 0,
    );
    if (size > 0 && size + text.length > this.#fileBytes) await rename(path, `${path}.1`);
    await appendFile(path, text, { mode: 0o600 });
  }
}

function trim(endpoint: EndpointLog): void {
  let from = Math.max(0, endpoint.lines.length - KEPT_LINES);
  let characters = 0;
  for (let at = endpoint.lines.length - 1; at >= from; at -= 1) {
    characters += endpoint.lines[at]?.text.length ?? 0;
    if (characters > KEPT_CHARACTERS / 2) from = at + 1;
  }
  endpoint.lines = endpoint.lines.slice(from);
  endpoint.characters = endpoint.lines.reduce((sum, line) => sum + line.text.length, 0);
}

/** Endpoint ids are plain; whatever else arrives must not become a path. */
function fileName(endpointId: string): string {
  return endpointId.replaceAll(/[^A-Za-z0-9_-]/g, '_').slice(0, 100) || 'none';
}
