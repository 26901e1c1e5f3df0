/** Writes the clients' history as JSON lines, and reads both histories back. */
import { once } from 'node:events';
import { createReadStream, createWriteStream, existsSync, type WriteStream } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import type { ClientRecord, HistoryRecord } from './core/record.ts';

/** Milliseconds of the host's monotonic clock, as the handlers read it too. */
export function monotonicNow(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}

type WithoutTime<T> = T extends unknown ? Omit<T, 'at'> : never;

export class Recorder {
  /** The file that handlers append to. */
  readonly handlersFile: string;
  readonly folder: string;
  readonly #file: WriteStream;

  constructor(folder: string) {
    this.folder = folder;
    this.handlersFile = join(folder, 'handlers.jsonl');
    this.#file = createWriteStream(join(folder, 'clients.jsonl'));
  }

  record(record: WithoutTime<ClientRecord>): void {
    this.#file.write(`${JSON.stringify({ at: monotonicNow(), ...record })}\n`);
  }

  async close(): Promise<void> {
    this.#file.end();
    await once(this.#file, 'close');
  }
}

/** Both histories of a folder, by time. */
export async function readHistory(folder: string): Promise<HistoryRecord[]> {
  const records: HistoryRecord[] = [];
  for (const name of ['clients.jsonl', 'handlers.jsonl']) {
    const path = join(folder, name);
    if (!existsSync(path)) continue;
    for await (const line of createInterface({ input: createReadStream(path) }))
      if (line !== '') records.push(JSON.parse(line) as HistoryRecord);
  }
  return records.toSorted((a, b) => a.at - b.at);
}
