/** Where a store is, as `capstan store copy` is told it. */
import { statSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { CapstanError } from '../../../lib/errors.ts';

export type Place = { readonly kind: 'sqlite'; readonly file: string } | { readonly kind: 'postgres'; readonly url: string };

/**
 * `sqlite:` with a database file or a data folder, or `postgres://user@host:port/database`.
 * @throws CapstanError INVALID_ARGUMENT naming `option`.
 */
export function placeOf(text: string, option: string, folder: string): Place {
  if (/^postgres(?:ql)?:\/\//.test(text)) return { kind: 'postgres', url: text };
  const path = /^sqlite:(.+)$/s.exec(text)?.[1];
  if (path === undefined || path.startsWith('//'))
    throw new CapstanError(
      'INVALID_ARGUMENT',
      `${option}: must be sqlite:<database file or data folder> or postgres://user@host:port/database`,
      {
        field: option,
      },
    );
  const full = resolve(folder, path);
  // A folder that does not exist yet is told from a file by its name.
  const isFile = statSync(full, { throwIfNoEntry: false })?.isFile() ?? full.endsWith('.db');
  return { kind: 'sqlite', file: isFile ? full : join(full, 'scheduler', 'capstan.db') };
}
