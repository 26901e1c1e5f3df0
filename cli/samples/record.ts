/**
 * Records which sample endpoints `npm start` deployed, in `samples.json` of the data folder. A recorded sample that no
 * longer exists was undeployed by somebody, and is not deployed again.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { z } from 'zod';

import { replaceDurablySync } from '../../lib/durable.ts';
import { isErrno, messageOf } from '../../lib/to-error.ts';
import { ToolError } from '../../terminal/tool-error.ts';

const schema = z.record(z.string(), z.string());

/** Endpoint name → digest of the build that was deployed last. */
export type SampleRecord = Readonly<Record<string, string>>;

/** Returns an empty record when there is no file. @throws CapstanError DATA_DIR when the file cannot be read or parsed. */
export function readSampleRecord(dataDir: string): SampleRecord {
  const path = pathOf(dataDir);
  try {
    return schema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch (cause) {
    if (isErrno(cause, 'ENOENT')) return {};
    const reason = cause instanceof z.ZodError || cause instanceof SyntaxError ? 'it is not a JSON object of strings' : messageOf(cause);
    throw new ToolError('DATA_DIR', `cannot read ${path}: ${reason}`, `Delete it: the samples are then deployed as on the first start.`, {
      cause,
    });
  }
}

export function writeSampleRecord(dataDir: string, record: SampleRecord): void {
  replaceDurablySync(pathOf(dataDir), `${JSON.stringify(record, null, 2)}\n`);
}

function pathOf(dataDir: string): string {
  return join(dataDir, 'samples.json');
}
