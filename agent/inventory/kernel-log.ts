/** Reads new kernel messages from /dev/kmsg without blocking. */
import { constants } from 'node:fs';
import { open, readFile, type FileHandle } from 'node:fs/promises';

import { errnoOf } from '../../lib/to-error.ts';

/** Longer than any kernel record, bytes. */
const RECORD_BYTES = 8_192;
/** Most records of one read; later ones are read the next time. */
const MAX_RECORDS = 100_000;

export interface KernelMessage {
  readonly text: string;
  /** Monotonic ms of this process's clock; negative for records from before its start. */
  readonly at: number;
}

export class KernelLog {
  readonly #path: string;
  #file: FileHandle | undefined;
  #rest = '';

  constructor(path: string) {
    this.#path = path;
  }

  /** Returns the records since the last read, the whole log the first time; empty when the log cannot be read. */
  async read(): Promise<KernelMessage[]> {
    let text = this.#rest;
    try {
      this.#file ??= await open(this.#path, constants.O_RDONLY | constants.O_NONBLOCK);
      text += await this.#readAll(this.#file);
    } catch (error) {
      // Unreadable for this user or absent on this host: that says nothing about the GPUs.
      if (isExpected(error)) return [];
      throw error;
    }
    const lines = text.split('\n');
    this.#rest = lines.pop() ?? '';
    const sinceBoot = (await uptimeMs()) - performance.now();
    return lines.flatMap((line) => parseRecord(line, sinceBoot));
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }

  /** /dev/kmsg returns one record per read, and EAGAIN after the last. */
  async #readAll(file: FileHandle): Promise<string> {
    let text = '';
    for (let records = 0; records < MAX_RECORDS; records += 1) {
      try {
        const { bytesRead, buffer } = await file.read(Buffer.alloc(RECORD_BYTES), 0, RECORD_BYTES, null);
        if (bytesRead === 0) break;
        text += buffer.toString('utf8', 0, bytesRead);
      } catch (error) {
        const code = errnoOf(error);
        if (code === 'EAGAIN') break;
        // Records were overwritten before they were read: the next read continues after them.
        if (code !== 'EPIPE') throw error;
      }
    }
    return text;
  }
}

/**
 * Parses `6,1234,5678901,-;text`: priority, number, microseconds since boot, flags. Other lines continue the record
 * before them.
 */
function parseRecord(line: string, sinceBoot: number): KernelMessage[] {
  const [, micros, text] = /^\d+,\d+,(\d+),[^;]*;(.*)$/.exec(line) ?? [];
  return micros === undefined || text === undefined ? [] : [{ text, at: Number(micros) / 1_000 - sinceBoot }];
}

async function uptimeMs(): Promise<number> {
  const [seconds] = (await readFile('/proc/uptime', 'utf8')).split(' ');
  return Number(seconds) * 1_000;
}

function isExpected(error: unknown): boolean {
  return ['ENOENT', 'EACCES', 'EPERM', 'ENODEV', 'ENXIO'].includes(errnoOf(error) ?? '');
}
