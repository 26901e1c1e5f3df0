/** Control rows: small JSON documents with a version, so that a write under old knowledge is refused. */
import type { ControlKind } from '../store/store.ts';

import type { StepResult, Write } from './effects.ts';
import type { Cause } from './events.ts';
import type { State } from './image.ts';
import { rowKey } from './image/control-rows.ts';

/** Writes a control row (null removes it). */
export function putRow(image: State, out: StepResult, kind: ControlKind, key: string, value: unknown, cause: Cause | null = null): Write {
  const name = rowKey(kind, key);
  const version = (image.versions.get(name) ?? 0) + 1;
  if (value === null) image.versions.delete(name);
  else image.versions.set(name, version);
  return out.write({ kind: 'put', rowKind: kind, key, version, value: value === null ? null : JSON.stringify(value) }, cause);
}
