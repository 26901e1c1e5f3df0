/** What two parts say or build alike stands in `lib/` once. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import test from 'ava';
import { parseSync } from 'oxc-parser';

import { root, sourceFiles } from './imports.ts';

interface Node {
  readonly type: string;
  readonly [key: string]: unknown;
}

/** Calls `found` with each text of a file that is more than one word. */
function forEachText(file: string, source: string, found: (text: string) => void): void {
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) value.forEach(visit);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
    const node = value as Node;
    if (node.type === 'Literal' && typeof node['value'] === 'string') found(node['value']);
    if (node.type === 'TemplateLiteral')
      found((node['quasis'] as { value: { cooked: string } }[]).map((each) => each.value.cooked).join('${}'));
    for (const key in node) visit(node[key]);
  };
  visit(parseSync(file, source).program.body);
}

/** The files of `lib/` that hold messages of several parts, and the core's own messages. */
const SHARED = [
  'lib/http-messages.ts',
  'lib/incident-actions.ts',
  'lib/job-errors.ts',
  'lib/postgres-rules.ts',
  'lib/program-rules.ts',
  'lib/system-errors.ts',
  'scheduler/core/jobs/errors.ts',
];

/** Everything that these files say, with the file that says it. */
const shared = new Map<string, string>();
for (const file of SHARED) {
  forEachText(file, readFileSync(join(root, file), 'utf8'), (text) => {
    if (text.replaceAll('${}', '').trim().includes(' ')) shared.set(text, file);
  });
}

/** What a file copies of them. */
function copiesIn(file: string, source: string): string[] {
  const copies: string[] = [];
  forEachText(file, source, (text) => {
    const from = shared.get(text);
    if (from !== undefined && from !== file) copies.push(`${file}: "${text}" is in ${from}`);
  });
  return copies;
}

/** Generated code, and what imports nothing of `lib/`: code that is shipped into workers. */
const ALONE = /^(proto|sdk|examples|bench|test|tools)\/|^agent\/runtimes\/thread\/host\//;

test('no part repeats a message of lib/', (t) => {
  t.true(shared.has('executionTimeout exceeded'));
  const files = sourceFiles().filter((file) => !ALONE.test(file));
  t.deepEqual(
    files.flatMap((file) => copiesIn(file, readFileSync(join(root, file), 'utf8'))),
    [],
  );
});

test('only lib/job-message.ts builds the message of a job', (t) => {
  const files = sourceFiles().filter((file) => !ALONE.test(file));
  const builds = files.filter((file) => {
    const source = readFileSync(join(root, file), 'utf8');
    // A declaration of a type has no comma behind the name's value.
    return /\bsubmittedAtMs\b.*,$/m.test(source) && /\bworkerId\b.*,$/m.test(source) && /\bretries\b.*,$/m.test(source);
  });
  t.deepEqual(builds, ['lib/job-message.ts']);
});

test('the rule bites', (t) => {
  t.is(copiesIn('agent/a.ts', `throw new Error('executionTimeout exceeded');`).length, 1);
  t.is(copiesIn('cli/a.ts', 'const where = `${port} is in use by another program`;').length, 1);
  t.deepEqual(copiesIn('cli/a.ts', `const other = 'executionTimeout was exceeded';`), []);
});
