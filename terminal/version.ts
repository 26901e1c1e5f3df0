/** The version of this package. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { z } from 'zod';

import { installRoot } from './config.ts';

export function toolVersion(): string {
  return z.object({ version: z.string() }).parse(JSON.parse(readFileSync(join(installRoot, 'package.json'), 'utf8'))).version;
}
