/** The layer rule and the purity rule as functions over imports; each answers with the breaches it found. */
import { assertNever } from '../../lib/errors.ts';
import { partOf, type Import, type Part } from './imports.ts';

const mayImport: Readonly<Record<Part, readonly Part[]>> = {
  proto: [],
  lib: ['proto'],
  scheduler: ['proto', 'lib'],
  agent: ['proto', 'lib'],
  gateway: ['proto', 'lib'],
  cli: ['proto', 'lib', 'sdk'],
  sdk: [],
};

const OUTSIDE = /^(bench|test|examples|docs|deploy|release)\//;

/** Breaches of docs/architecture.md, Folders. */
export function layerViolations(imports: readonly Import[]): string[] {
  return imports.flatMap((edge) => {
    const from = partOf(edge.from);
    if (from === null) return [];
    if (OUTSIDE.test(edge.target)) return [`${edge.from} imports ${edge.target}: no part may import what only serves development`];
    const to = partOf(edge.target);
    if (to === null || to === from || mayImport[from].includes(to)) return [];
    if (from === 'cli') return cliViolation(edge);
    return [`${edge.from} imports ${edge.target}: ${from} may import ${mayImport[from].join(', ') || 'nothing of ours'}`];
  });
}

const DOORS =
  /^\w+\/(start|config)\.ts$|^agent\/(local-workers|node-check)\.ts$|^gateway\/queue-api\.ts$|^scheduler\/store-(copy|check)\.ts$/;

/** The tool loads a part only when its command runs, and only through the part's doors. */
function cliViolation(edge: Import): string[] {
  const door = DOORS.test(edge.target);
  switch (edge.kind) {
    case 'type':
      return door
        ? []
        : [
            `${edge.from} imports a type of ${edge.target}: only start.ts, config.ts, agent/local-workers.ts, agent/node-check.ts, gateway/queue-api.ts, scheduler/store-copy.ts and scheduler/store-check.ts are doors`,
          ];
    case 'dynamic':
      return door
        ? []
        : [
            `${edge.from} loads ${edge.target}: only start.ts, config.ts, agent/local-workers.ts, agent/node-check.ts, gateway/queue-api.ts, scheduler/store-copy.ts and scheduler/store-check.ts are doors`,
          ];
    case 'static':
      return [`${edge.from} imports ${edge.target} at load: cli loads a part with import() when its command runs`];
    default:
      return assertNever(edge.kind);
  }
}

/** True for a file of a pure core. */
function isCore(file: string): boolean {
  return /(^|\/)core\//.test(file);
}

/**
 * What a core reaches by its imports, however many files lie between, must be free of I/O too:
 * no package, no module of Node, nothing loaded dynamically. Generated code is a leaf (its enums
 * are constants; that it also holds gRPC descriptions changes nothing a core can do).
 */
export function purityViolations(imports: readonly Import[]): string[] {
  const byFile = Map.groupBy(imports, (edge) => edge.from);
  const violations: string[] = [];
  const seen = new Set<string>();
  const visit = (file: string, path: readonly string[]): void => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const edge of byFile.get(file) ?? []) {
      const way = [...path, file].join(' → ');
      if (edge.kind === 'type') continue;
      if (edge.kind === 'dynamic') violations.push(`${way} loads ${edge.target} dynamically`);
      else if (partOf(edge.target) === null) violations.push(`${way} imports ${edge.target}`);
      else if (!edge.target.startsWith('proto/gen/')) visit(edge.target, [...path, file]);
    }
  };
  for (const file of byFile.keys()) if (isCore(file)) visit(file, []);
  return violations;
}
