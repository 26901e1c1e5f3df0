/** Control rows: small JSON documents with a version. A write based on an outdated version is refused. */
import type { ControlKind } from './ports/store.ts';

import type { StepContext } from './context.ts';
import type { Write } from './effects.ts';
import { rowKey } from './state/control-rows.ts';
import { storedJson } from './stored-json.ts';

/** Writes a control row (null deletes it). */
export function putRow(ctx: StepContext, kind: ControlKind, key: string, value: unknown): Write {
  const name = rowKey(kind, key);
  const version = (ctx.state.versions.get(name) ?? 0) + 1;
  if (value === null) ctx.state.versions.delete(name);
  else ctx.state.versions.set(name, version);
  return ctx.write({ kind: 'put', rowKind: kind, key, version, value: value === null ? null : storedJson(value) });
}
