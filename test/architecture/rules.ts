/** The layer rule and the purity rule as functions over imports; each answers with the breaches it found. */
import { partOf, type Import, type Part } from './imports.ts';

const mayImport: Readonly<Record<Part, readonly Part[]>> = {
  proto: [],
  lib: ['proto'],
  scheduler: ['proto', 'lib'],
  agent: ['proto', 'lib'],
  gateway: ['proto', 'lib'],
  terminal: ['lib'],
  compiler: ['proto', 'lib', 'sdk', 'terminal'],
  devserver: ['proto', 'lib', 'sdk', 'terminal', 'compiler'],
  supervisor: ['lib', 'terminal'],
  client: ['proto', 'lib', 'terminal', 'supervisor'],
  cli: ['proto', 'lib', 'sdk', 'terminal', 'compiler', 'devserver', 'supervisor', 'client'],
  sdk: [],
  // It reads the parts' schemas for the docs; nothing imports it.
  tools: ['lib', 'scheduler', 'agent', 'gateway', 'terminal'],
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
    if (doorsOf[from] !== undefined) return doorViolation(edge, from, doorsOf[from]);
    return [`${edge.from} imports ${edge.target}: ${from} may import ${mayImport[from].join(', ') || 'nothing of ours'}`];
  });
}

/** The files of a service that each part of the tool may load. */
const doorsOf: Readonly<Partial<Record<Part, RegExp>>> = {
  devserver: /^agent\/local-(?:workers|agent)\.ts$|^gateway\/assembly\/queue-api\.ts$|^scheduler\/assembly\/local-scheduler\.ts$/,
  supervisor: /^(?:scheduler\/assembly|agent)\/start\.ts$|^gateway\/processes\/run\.ts$|^(?:scheduler|agent|gateway)\/config\.ts$/,
  cli: /^(?:scheduler|agent|gateway)\/config\.ts$|^agent\/node-check\.ts$|^scheduler\/store-(?:copy|check)\.ts$/,
};

/** A part of the tool loads a service only when its command runs, and only through the service's doors. */
function doorViolation(edge: Import, from: Part, doors: RegExp): string[] {
  const isService = /^(?:scheduler|agent|gateway)\//.test(edge.target);
  if (!isService) return [`${edge.from} imports ${edge.target}: ${from} may import ${mayImport[from].join(', ')}`];
  if (!doors.test(edge.target))
    return [`${edge.from} imports ${edge.target}: it is no door of the service for ${from}/ (test/architecture/rules.ts)`];
  if (edge.kind === 'static')
    return [`${edge.from} imports ${edge.target} at load: a service is loaded with import() when its command runs`];
  return [];
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
