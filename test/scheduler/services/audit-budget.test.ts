/** What the changes of keys and accounts may add to the audit log. */
import { Metadata } from '@grpc/grpc-js';
import test from 'ava';

import { KeyScope } from '../../../proto/gen/capstan/v1/control.ts';
import type { KeyRow } from '../../../scheduler/core/state/control-rows.ts';
import type { Engine } from '../../../scheduler/engine/engine.ts';
import { hashKey } from '../../../scheduler/secrets/hash.ts';
import type { WorkerTokens } from '../../../scheduler/secrets/worker-tokens.ts';
import { entryOf } from '../../../scheduler/services/audit.ts';
import { AuditBudget } from '../../../scheduler/services/audit-budget.ts';
import { Authorizer } from '../../../scheduler/services/auth.ts';

const MIB = 1 << 20;

/** Charges until it is refused; returns how much was charged, and the refusal. */
function drain(budget: AuditBudget, key: string, now: number, account = 'team'): { readonly bytes: number; readonly error: Error } {
  for (let bytes = 0; ; bytes += 8_192)
    try {
      budget.charge({ key, account }, 8_192, now);
    } catch (error) {
      return { bytes, error: error as Error };
    }
}

test('a key in a loop is refused, leaves its account the rest, and may go on later', (t) => {
  const budget = new AuditBudget();
  const { bytes, error } = drain(budget, 'a', 1_000);
  t.true(bytes > 7 * MIB && bytes <= 8 * MIB, String(bytes));
  t.like(error, { code: 'RATE_LIMITED', message: 'this key has made too many changes, more than the audit log takes of it' });
  t.notThrows(() => budget.charge({ key: 'b', account: 'team' }, 100, 1_000));
  t.notThrows(() => budget.charge({ key: 'a', account: 'other' }, 100, 1_000), 'keys of two accounts may have one id');
  t.throws(() => budget.charge({ key: 'a', account: 'team' }, 100, 2_000));
  t.notThrows(() => budget.charge({ key: 'a', account: 'team' }, 100, 1_000_000));
});

test('however many keys it makes, an account has one share', (t) => {
  const budget = new AuditBudget();
  const drained = Array.from({ length: 20 }, (_, n) => drain(budget, `key-${n}`, 1_000));
  const bytes = drained.reduce((sum, each) => sum + each.bytes, 0);
  t.true(bytes > 30 * MIB && bytes <= 32 * MIB, String(bytes));
  t.regex(drained.at(-1)?.error.message ?? '', /^the account has made too many changes/);
  t.notThrows(() => budget.charge({ key: 'key-1', account: 'other' }, 100, 1_000));
});

test('entries of an account are charged to its keys, those of operators to nobody', (t) => {
  const scopes = { team: KeyScope.ALL, default: KeyScope.OPERATOR };
  const keys = Object.entries(scopes).map(([account, scope]): KeyRow => {
    const hash = hashKey(`key of ${account}`).toString('hex');
    return { hash, account, scope, endpoints: [], environment: '', name: 'key', prefix: '', createdAt: 0, expiresAt: null, usedAt: null };
  });
  const state = { keys: new Map(keys.map((key) => [key.hash, key])), workers: new Map() };
  const auth = new Authorizer({ state } as unknown as Engine, { value: 'gateway' }, {} as WorkerTokens);
  const change = (account: string): void => {
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer key of ${account}`);
    entryOf(auth, metadata, { action: 'setSecret', object: 'x'.repeat(8_192), account });
  };
  for (let n = 0; n < 1_100; n++) change('default');
  t.throws(
    () => {
      for (let n = 0; n < 1_100; n++) change('team');
    },
    { code: 'RATE_LIMITED' },
  );
});
