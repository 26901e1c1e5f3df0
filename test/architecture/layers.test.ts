import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import test from 'ava';

import { importsOf, root, sourceFiles } from './imports.ts';
import { layerViolations, purityViolations } from './rules.ts';

/** Of the commands, their clients and what they print. */
const MAX_CLI_LINES = 9_000;

/** Enums whose values the core writes into its state and compares: texts, equal in messages and rows. */
const CORE_ENUMS = ['AttemptOutcome', 'EndpointKind', 'JobState', 'KeyScope', 'RefusalReason', 'StartPhase', 'StopReason', 'WorkerState'];

/**
 * Messages that the core knows by their type: reports of agents, which it reads and keeps as they came, and what its effects send. The
 * list only becomes shorter: what else arrives is converted in the services.
 */
const CORE_MESSAGES = [
  'ActualWorkers',
  'AgentEvent',
  'AttemptChunk',
  'AttemptEnded',
  'AttemptProgress',
  'AttemptRefused',
  'AttemptStarted',
  'DirectoryUpdate',
  'EndpointEntry',
  'EndpointLevel',
  'FunctionSpec',
  'Hello',
  'Inventory',
  'Job',
  'JobReply',
  'KeyEntry',
  'LogLine',
  'NodePlacements',
  'Payload',
  'SchedulerEvent',
  'WorkerStatus',
];

const violationsOf = (file: string, source: string): string[] => layerViolations(importsOf(file, source));

test('every part imports only what the layer table allows', (t) => {
  t.deepEqual(layerViolations(sourceFiles().flatMap((file) => importsOf(file))), []);
});

test('what a core imports, directly or through others, holds no I/O', (t) => {
  const sources = sourceFiles().filter((file) => !file.startsWith('proto/gen/'));
  t.deepEqual(purityViolations(sources.flatMap((file) => importsOf(file))), []);
});

test('the core of the scheduler takes of the messages only these', (t) => {
  const used = new Set<string>();
  for (const file of globSync('scheduler/core/**/*.ts', { cwd: root })) {
    const source = readFileSync(join(root, file), 'utf8');
    for (const [, isType, names = ''] of source.matchAll(/import (type )?\{([^}]*)\} from '[^']*proto\/gen\//g))
      for (const each of names.split(',').map((name) => name.trim()))
        if (each !== '') used.add(isType === undefined && !each.startsWith('type ') ? `value ${each}` : each.replace(/^type | as .*/g, ''));
  }
  const values = [...used].filter((each) => each.startsWith('value ')).map((each) => each.slice('value '.length));
  t.deepEqual(values.toSorted(), CORE_ENUMS);
  const messages = [...used].filter((each) => !each.startsWith('value ') && !CORE_ENUMS.includes(each));
  t.deepEqual(messages.toSorted(), CORE_MESSAGES);
});

test('no two files import each other in a ring at load', (t) => {
  const edges = new Map(
    sourceFiles().map((file) => [
      file,
      importsOf(file)
        .filter((edge) => edge.kind === 'static')
        .map((edge) => edge.target),
    ]),
  );
  const done = new Set<string>();
  const rings: string[] = [];
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) return void rings.push([...path.slice(path.indexOf(file)), file].join(' → '));
    if (done.has(file)) return;
    for (const target of edges.get(file) ?? []) visit(target, [...path, file]);
    done.add(file);
  };
  for (const file of edges.keys()) visit(file, []);
  t.deepEqual(rings, []);
});

test('the tool itself stays small beside the parts that it starts', (t) => {
  const written = globSync('cli/**/*.{ts,mjs}', { cwd: root }).filter((file) => !file.includes('/gen/'));
  const lines = written.reduce((sum, file) => sum + readFileSync(join(root, file), 'utf8').split('\n').length - 1, 0);
  t.true(
    lines <= MAX_CLI_LINES,
    `cli/ has ${lines} lines: what belongs to the compiler, the development server or the supervisor goes there`,
  );
});

for (const [file, source] of [
  ['lib/errors.ts', `import { start } from '../scheduler/assembly/start.ts';`],
  ['scheduler/engine/shell.ts', `import { start } from '../../agent/start.ts';`],
  ['scheduler/engine/shell.ts', `export * from '../../gateway/routes/run.ts';`],
  ['scheduler/engine/shell.ts', `import type { AgentConfig } from '../../agent/config.ts';`],
  ['agent/session/session.ts', `await import('../../scheduler/core/step.ts');`],
  ['gateway/routes/run.ts', `import { Endpoint } from '@capstan/sdk';`],
  ['gateway/routes/run.ts', `import { cycles } from '../../bench/store/cycles.ts';`],
  ['supervisor/stack.ts', `import { start } from '../scheduler/assembly/start.ts';`],
  ['cli/commands/up.ts', `await import('../../scheduler/core/step.ts');`],
  ['cli/commands/up.ts', `import type { Image } from '../../scheduler/core/state.ts';`],
  ['cli/commands/up.ts', `import { start } from '../../agent/start.ts';`],
  ['cli/commands/up.ts', `await import('../../agent/start.ts');`],
  ['cli/commands/run.ts', `await import('../../agent/local-workers.ts');`],
  ['devserver/project.ts', `import { openLocalWorkers } from '../agent/local-workers.ts';`],
  ['devserver/project.ts', `await import('../scheduler/assembly/start.ts');`],
  ['devserver/project.ts', `import { connect } from '../client/gateway.ts';`],
  ['devserver/project.ts', `import { supervise } from '../supervisor/supervisor.ts';`],
  ['compiler/build/build.ts', `import { connect } from '../../client/gateway.ts';`],
  ['compiler/build/build.ts', `import { startDevelopment } from '../../devserver/development.ts';`],
  ['compiler/build/build.ts', `await import('../../agent/local-workers.ts');`],
  ['compiler/build/build.ts', `import type { PartPlan } from '../../supervisor/supervisor.ts';`],
  ['supervisor/stack.ts', `import { build } from '../compiler/build/build.ts';`],
  ['supervisor/stack.ts', `import { startDevelopment } from '../devserver/development.ts';`],
  ['supervisor/stack.ts', `import { httpBase } from '../client/local.ts';`],
  ['supervisor/stack.ts', `await import('../agent/local-workers.ts');`],
  ['terminal/terminal.ts', `import { build } from '../compiler/build/build.ts';`],
  ['terminal/terminal.ts', `import type { RunFile } from '../supervisor/run-file.ts';`],
  ['terminal/config.ts', `import { httpBase } from '../client/local.ts';`],
  ['client/gateway.ts', `import { status } from '../cli/commands/status.ts';`],
  ['client/gateway.ts', `import { build } from '../compiler/build/build.ts';`],
  ['compiler/build/build.ts', `import { status } from '../../cli/commands/status.ts';`],
  ['supervisor/stack.ts', `import { status } from '../cli/commands/status.ts';`],
  ['cli/commands/up.ts', `import { install } from '../../tools/setup.mjs';`],
  ['lib/errors.ts', `import { ToolError } from '../terminal/tool-error.ts';`],
  ['scheduler/assembly/start.ts', `import { ToolError } from '../../terminal/tool-error.ts';`],
  ['agent/start.ts', `import { start } from '../gateway/assembly/start.ts';`],
  ['scheduler/core/step.ts', `import { step } from '../../agent/core/step.ts';`],
  ['sdk/typescript/client.ts', `import { CapstanError } from '../../lib/errors.ts';`],
] as const) {
  test(`the layer rule refuses in ${file}: ${source}`, (t) => {
    t.is(violationsOf(file, source).length, 1);
  });
}

for (const [file, source] of [
  [
    'scheduler/engine/shell.ts',
    `import { CapstanError } from '../../lib/errors.ts'; import { readFileSync } from 'node:fs'; import pino from 'pino';`,
  ],
  ['supervisor/start-part.ts', `const { start } = await import('../scheduler/assembly/start.ts');`],
  ['devserver/project.ts', `const { openLocalWorkers } = await import('../agent/local-workers.ts');`],
  ['devserver/project.ts', `import { discover } from '../compiler/discovery/discover.ts';`],
  ['cli/commands/up.ts', `import { runStack } from '../../supervisor/stack.ts';`],
  ['cli/commands/build.ts', `import { build } from '../../compiler/build/build.ts';`],
  ['cli/commands/up.ts', `import type { SchedulerConfig } from '../../scheduler/config.ts';`],
  ['cli/commands/call.ts', `import { Endpoint } from '@capstan/sdk';`],
  ['bench/main.ts', `import { step } from '../scheduler/core/step.ts';`],
] as const) {
  test(`the layer rule allows in ${file}: ${source}`, (t) => {
    t.deepEqual(violationsOf(file, source), []);
  });
}

test('the purity rule sees through the files between a core and what it must not reach', (t) => {
  const imports = [
    ...importsOf('scheduler/core/step.ts', `import { place } from '../placement/rank.ts';`),
    ...importsOf('scheduler/placement/rank.ts', `import { readFileSync } from 'fs';`),
  ];
  t.deepEqual(purityViolations(imports), ['scheduler/core/step.ts → scheduler/placement/rank.ts imports node:fs']);
});

test('the purity rule refuses a package and a dynamic import, and lets types and constants pass', (t) => {
  t.is(purityViolations(importsOf('agent/core/step.ts', `import pino from 'pino';`)).length, 1);
  t.is(purityViolations(importsOf('scheduler/core/deep/a.ts', `import { readFileSync } from 'node:fs';`)).length, 1);
  t.is(purityViolations(importsOf('scheduler/core/a.ts', `import { randomUUID } from 'crypto';`)).length, 1);
  t.is(purityViolations(importsOf('agent/core/step.ts', `const later = import('./later.ts');`)).length, 1);
  t.deepEqual(
    purityViolations(
      importsOf(
        'agent/core/step.ts',
        `import type { Server } from 'node:http'; import { JobState } from '../../proto/gen/capstan/v1/common.ts'; import { assertNever } from '../../lib/errors.ts';`,
      ),
    ),
    [],
  );
});
