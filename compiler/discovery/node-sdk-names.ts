/** Under which local names a TypeScript or JavaScript file knows the SDK and its members, by `import` or `require`. */
import type { Expression } from 'oxc-parser';

import type { ParsedModule } from '../signatures/exports.ts';
import { keyOf } from '../signatures/property-key.ts';
import { constantsOf, ENUMERATIONS, type Scope } from './literals.ts';

const SDK = '@capstan/sdk';

export interface SdkNames extends Scope {
  /** Local names of `endpoint` and of `Endpoint`. */
  readonly short: ReadonlySet<string>;
  readonly long: ReadonlySet<string>;
}

/** Local names of the SDK and its members. */
export function sdkNamesOf({ program }: ParsedModule): SdkNames {
  const short = new Set<string>();
  const long = new Set<string>();
  const enumerations = new Map<string, string>();
  const packages = new Set<string>();
  const secrets = new Set<string>();
  const take = (imported: string, local: string): void => {
    if (imported === 'endpoint') short.add(local);
    else if (imported === 'Endpoint') long.add(local);
    else if (imported === 'secret') secrets.add(local);
    else if (ENUMERATIONS.has(imported)) enumerations.set(local, imported);
  };
  for (const statement of program.body) {
    if (statement.type === 'ImportDeclaration' && statement.source.value === SDK) {
      for (const specifier of statement.specifiers) {
        if (specifier.type !== 'ImportSpecifier') packages.add(specifier.local.name);
        else if (specifier.imported.type === 'Identifier') take(specifier.imported.name, specifier.local.name);
      }
    } else if (statement.type === 'VariableDeclaration') {
      for (const { id, init } of statement.declarations) {
        if (init === null || !isRequire(init)) continue;
        if (id.type === 'Identifier') packages.add(id.name);
        else if (id.type === 'ObjectPattern') {
          for (const property of id.properties) {
            const name = property.type === 'Property' ? keyOf(property) : null;
            if (property.type === 'Property' && name !== null && property.value.type === 'Identifier') take(name, property.value.name);
          }
        }
      }
    }
  }
  return { short, long, enumerations, packages, secrets, constants: constantsOf(program) };
}

/** Whether an expression is the SDK's `endpoint` or `Endpoint`: by a local name, or after the SDK's own. */
export function namesMember(node: Expression, name: 'endpoint' | 'Endpoint', names: SdkNames): boolean {
  if (node.type === 'Identifier') return (name === 'endpoint' ? names.short : names.long).has(node.name);
  return (
    node.type === 'MemberExpression' &&
    !node.computed &&
    node.property.type === 'Identifier' &&
    node.property.name === name &&
    node.object.type === 'Identifier' &&
    names.packages.has(node.object.name)
  );
}

function isRequire(node: Expression): boolean {
  if (node.type !== 'CallExpression' || node.callee.type !== 'Identifier' || node.callee.name !== 'require') return false;
  const [argument] = node.arguments;
  return argument?.type === 'Literal' && argument.value === SDK;
}
