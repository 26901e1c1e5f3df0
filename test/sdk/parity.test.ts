/** The rules of settings, which both SDKs share: one list of cases, that sdk/python/tests/test_parity.py holds Python to. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import test from 'ava';

import { Declaration, DeclarationError, type EndpointSettings } from '../../sdk/typescript/sdk.ts';

interface Case {
  /** By the names of Python. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** Part of the manifest's entry, where they are taken. */
  readonly resource?: Readonly<Record<string, unknown>>;
  /** What is refused, and the rule as an expression. */
  readonly parameter?: string;
  readonly rule?: string;
}

const cases = JSON.parse(readFileSync(join(import.meta.dirname, 'declarations.json'), 'utf8')) as readonly Case[];
const inCamelCase = (name: string): string => name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());

for (const { settings, resource, parameter = '', rule = '' } of cases) {
  test(JSON.stringify(settings), (t) => {
    const given = Object.fromEntries(
      Object.entries(settings).map(([name, value]) => [inCamelCase(name), value]),
    ) as unknown as EndpointSettings;
    if (resource !== undefined) t.like(new Declaration(given).resource(), resource);
    else {
      const message = new RegExp(`\\b${inCamelCase(parameter)} .*${rule}`);
      t.throws(() => new Declaration(given), { instanceOf: DeclarationError, message });
    }
  });
}
