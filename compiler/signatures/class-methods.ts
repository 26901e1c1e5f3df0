/**
 * Reads the methods of a TypeScript class from its source: public ones, own and inherited from classes of the
 * application's own files, by the rule of the worker (agent/runtimes/thread/host/methods.ts).
 */
import type { Class } from 'oxc-parser';

import type { ClassSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import { keyOf } from './property-key.ts';
import { resolveName, type ParsedModule } from './exports.ts';
import { readParameters, withoutSamples, type Reading } from './parameters.ts';

/** A method of a class, for its worker and for examples of calls. */
export interface Method extends Reading {
  readonly name: string;
}

export interface ClassMethod extends Method {
  readonly isAsync: boolean;
  readonly isGenerator: boolean;
}

/** Follows at most this many base classes, because they can form a cycle. */
const DEEPEST = 20;

/** Returns the methods in the order of their declaration, own ones before inherited ones. */
export async function readMethods(node: Class, module: ParsedModule, depth = 0): Promise<ClassMethod[]> {
  const methods = new Map<string, ClassMethod>();
  for (const member of node.body.body) {
    // Of an overloaded method only the implementation has a body.
    if (member.type !== 'MethodDefinition' || member.kind !== 'method' || member.static || member.value.body === null) continue;
    const name = keyOf(member);
    if (name === null || name.startsWith('_')) continue;
    const { async: isAsync, generator: isGenerator } = member.value;
    methods.set(name, { name, isAsync, isGenerator, ...(await readParameters(member.value, module)) });
  }
  for (const inherited of await inheritedMethods(node, module, depth))
    if (!methods.has(inherited.name)) methods.set(inherited.name, inherited);
  return [...methods.values()];
}

/** None of a base class that another package has, or that an expression makes: the worker reads those. */
async function inheritedMethods({ superClass }: Class, module: ParsedModule, depth: number): Promise<ClassMethod[]> {
  if (superClass?.type !== 'Identifier' || depth >= DEEPEST) return [];
  const base = await resolveName(module, superClass.name);
  return base.kind === 'class' ? readMethods(base.node, base.module, depth + 1) : [];
}

/** The methods as the worker receives them. Workers of Python read their annotations themselves. */
export function classSpecOf(module: string, methods: readonly Method[] | undefined): { classSpec?: ClassSpec } {
  if (methods === undefined || module.endsWith('.py')) return {};
  return {
    classSpec: {
      methods: methods.map(({ name, style, parameters }) => ({ name, callStyle: style, parameters: withoutSamples(parameters) })),
    },
  };
}
