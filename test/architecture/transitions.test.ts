/**
 * The tables of transitions are complete and the only truth: an event or a phase without its place in a table does not
 * compile, and nothing but the one writer beside a table sets a phase.
 */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import { parseSync } from 'oxc-parser';

import { folderOf } from '../support/folder.ts';
import { root, sourceFiles } from './imports.ts';

interface Table {
  readonly file: string;
  /** Its unions. */
  readonly events: string;
  readonly phases: string;
  /** The only file that creates or changes what goes through these phases. */
  readonly writer: string;
  /** The type that has the phase, and the file that declares it. */
  readonly record: string;
  readonly declaredIn: string;
}

const tables: readonly Table[] = [
  {
    file: 'scheduler/core/state/transitions.ts',
    events: 'JobEvent',
    phases: 'Phase',
    writer: 'scheduler/core/jobs/job-records.ts',
    record: 'JobRecord',
    declaredIn: 'scheduler/core/state/jobs.ts',
  },
  {
    file: 'agent/core/attempt-transitions.ts',
    events: 'AttemptEvent',
    phases: 'AttemptPhase',
    writer: 'agent/core/attempt-records.ts',
    record: 'Attempt',
    declaredIn: 'agent/core/state.ts',
  },
];

for (const { file, events, phases, record, declaredIn } of tables) {
  const source = readFileSync(join(root, file), 'utf8');

  test(`${file} compiles by itself`, async (t) => {
    t.is(await compilerErrors(t, source), '');
  });

  for (const [what, union] of [
    ['an event', events],
    ['a phase', phases],
  ] as const) {
    test(`${file} does not compile with ${what} that has no row`, async (t) => {
      const extended = withMember(source, union);
      t.regex(await compilerErrors(t, extended), /'?"?unheard-of"?'? is missing/);
    });
  }

  test(`an assignment to the phase of ${record} does not compile`, async (t) => {
    const path = JSON.stringify(join(root, declaredIn));
    const assign = `import type { ${record} } from ${path};\nexport const bad = (of: ${record}): void => {\n  of.phase = of.phase;\n};\n`;
    t.regex(await compilerErrors(t, assign), /Cannot assign to 'phase' because it is a read-only property/);
  });
}

/** The source with one more member in a union. */
function withMember(source: string, union: string): string {
  const head = `export type ${union} =`;
  const [before, after, ...more] = source.split(head);
  if (before === undefined || after === undefined || more.length > 0) throw new Error(`no union ${union}`);
  return `${before}${head} 'unheard-of' | ${after.replace(/^\s*(\/\*\*[^*]*\*\/)?\s*\|/, '')}`;
}

async function compilerErrors(t: ExecutionContext, source: string): Promise<string> {
  const { compilerOptions } = JSON.parse(readFileSync(join(root, 'tsconfig.json'), 'utf8')) as { compilerOptions: object };
  const config = { compilerOptions: { ...compilerOptions, types: [] }, files: ['table.ts'] };
  const folder = await folderOf(t, { 'package.json': '{"type":"module"}', 'table.ts': source, 'tsconfig.json': JSON.stringify(config) });
  return new Promise((resolve, reject) => {
    execFile(join(root, 'node_modules/.bin/tsc'), ['-p', folder, '--pretty', 'false'], (error, stdout, stderr) => {
      // Exit codes 1 and 2 mean findings.
      if (error !== null && error.code !== 1 && error.code !== 2) reject(new Error(stderr || stdout, { cause: error }));
      else resolve(stdout);
    });
  });
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly [key: string]: unknown;
}

/**
 * Places of a file that set a `phase`: assignments, whatever they are cast to, and members of written-out objects. The worker of an agent has a
 * phase, too, which is no concern of these tables.
 */
function phaseWrites(file: string, source: string): string[] {
  const found: string[] = [];
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) {
      for (const each of value) visit(each);
      return;
    }
    if (typeof value !== 'object' || value === null) return;
    const node = value as Node;
    if (setsPhase(node)) found.push(`${file}:${source.slice(0, node.start).split('\n').length}`);
    for (const each of Object.values(node)) visit(each);
  };
  visit(parseSync(file, source).program);
  return found;
}

function setsPhase(node: Node): boolean {
  switch (node.type) {
    case 'AssignmentExpression': {
      const target = node['left'] as Node;
      return target.type === 'MemberExpression' && nameOf(target['property']) === 'phase' && nameOf(target['object']) !== 'worker';
    }
    case 'ObjectExpression': {
      const members = (node['properties'] as Node[]).map((member) => nameOf(member['key']));
      return members.includes('phase') && !members.includes('releaseId');
    }
    default:
      return false;
  }
}

function nameOf(value: unknown): unknown {
  const node = value as Node | undefined;
  return node?.['name'] ?? node?.['value'];
}

test('nothing but the writer beside a table sets a phase', (t) => {
  const writers = tables.map(({ writer }) => writer);
  const folders = /^(agent\/core|scheduler\/(core|engine|services))\//;
  const writes = sourceFiles()
    .filter((file) => folders.test(file))
    .flatMap((file) => phaseWrites(file, readFileSync(join(root, file), 'utf8')));
  t.deepEqual([...new Set(writes.map((place) => place.replace(/:\d+$/, '')))].sort(), [...writers].sort(), writes.join(' '));
});

test('the rule for phases sees assignments, casts and written-out objects', (t) => {
  const bad = [
    `attempt.phase = 'ended';`,
    `(attempt as { phase: string }).phase = 'ended';`,
    `attempt['phase'] = 'ended';`,
    `Object.assign(attempt, { phase: 'ended' });`,
    `const job = { ...row, phase: 'QUEUED' };`,
  ];
  for (const source of bad) t.is(phaseWrites('a.ts', source).length, 1, source);
  const good = [`worker.phase = 'ready';`, `const is = job.phase === 'QUEUED';`, `const { phase } = job;`];
  for (const source of good) t.deepEqual(phaseWrites('a.ts', source), [], source);
});
