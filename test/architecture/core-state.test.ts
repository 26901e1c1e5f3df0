/**
 * Nothing outside of `step` changes the scheduler's state: the rest of the scheduler reads the records, and tells the core by events what happened.
 * Held by name: no file outside of the core assigns to a member that a record of the state can have changed, or changes one of its collections.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import test from 'ava';
import { parseSync } from 'oxc-parser';

import { root, sourceFiles } from './imports.ts';

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [key: string]: unknown;
}

function visit(value: unknown, each: (node: Node) => void): void {
  if (Array.isArray(value)) {
    for (const item of value) visit(item, each);
    return;
  }
  if (typeof value !== 'object' || value === null) return;
  if (typeof (value as Node).type === 'string') each(value as Node);
  for (const item of Object.values(value)) visit(item, each);
}

function nameOf(value: unknown): string {
  const node = value as Node | undefined;
  const name = node?.['name'] ?? node?.['value'];
  return typeof name === 'string' ? name : '';
}

/** Members that the core may assign to in its records. */
function mutableMembers(): Set<string> {
  const names = new Set<string>();
  for (const file of ['scheduler/core/state.ts', ...globSync('scheduler/core/state/*.ts', { cwd: root })])
    visit(parseSync(file, readFileSync(join(root, file), 'utf8')).program, (node) => {
      if (node.type === 'TSPropertySignature' && node['readonly'] !== true) names.add(nameOf(node['key']));
    });
  return names;
}

/** A chain of members that goes through `state` or `image`. */
function isOfState(value: unknown): boolean {
  const node = value as Node | undefined;
  if (node?.type !== 'MemberExpression') return ['state', 'image'].includes(nameOf(node));
  return ['state', 'image'].includes(nameOf(node['property'])) || isOfState(node['object']);
}

/** What counts an endpoint's requests. */
function isUsage(node: Node): boolean {
  return nameOf(node) === 'usage' || nameOf(node['property']) === 'usage';
}

function changes(file: string, source: string, members: ReadonlySet<string>): string[] {
  const found: string[] = [];
  visit(parseSync(file, source).program, (node) => {
    const note = () => found.push(`${file}: ${source.slice(node.start, node.end).slice(0, 80)}`);
    if (node.type === 'CallExpression') {
      const callee = node['callee'] as Node;
      const changer = ['set', 'delete', 'clear', 'add', 'push', 'splice', 'shift', 'pop'].includes(nameOf(callee['property']));
      const counted = ['accept', 'hold', 'release'].includes(nameOf(callee['property'])) && isUsage(callee['object'] as Node);
      if (callee.type === 'MemberExpression' && ((changer && isOfState(callee['object'])) || counted)) note();
      return;
    }
    const target = (
      node.type === 'AssignmentExpression' ? node['left'] : node.type === 'UpdateExpression' ? node['argument'] : null
    ) as Node | null;
    if (target?.type !== 'MemberExpression' || (target['object'] as Node).type === 'ThisExpression') return;
    if (members.has(nameOf(target['property'])) || isOfState(target['object'])) note();
  });
  return found;
}

test('nothing outside of the core changes what the state holds', (t) => {
  const members = mutableMembers();
  t.true(members.has('phase') || members.has('token'));
  t.true(members.size > 40);
  // The store knows rows, and nothing of the state.
  const files = sourceFiles().filter((file) => /^scheduler\/(?!core\/|store\/)/.test(file));
  t.deepEqual(
    files.flatMap((file) => changes(file, readFileSync(join(root, file), 'utf8'), members)),
    [],
  );
});

test('the rule for changes sees assignments and changed collections', (t) => {
  const members = new Set(['diskRefusal']);
  const bad = [
    'state.diskRefusal = null;',
    'endpoint.diskRefusal ??= x;',
    'this.engine.state.jobs.delete(id);',
    'state.nextSeq++;',
    'image.jobs.set(a, b);',
    'effect.usage.release();',
    'effect.usage?.release();',
  ];
  for (const source of bad) t.is(changes('a.ts', source, members).length, 1, source);
  const good = ['this.state = null;', 'const x = state.jobs.get(id);', 'entry.at = 1;', 'this.#calls.delete(1);'];
  for (const source of good) t.deepEqual(changes('a.ts', source, members), [], source);
});
