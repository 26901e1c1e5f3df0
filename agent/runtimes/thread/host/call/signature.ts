/**
 * Determines how a function takes its input (CallStyle of nodes.proto). The build reports it if it could read the
 * source; otherwise the source of the loaded function is read.
 */
import { parseExpressionAt, type Expression, type Function as FunctionNode, type Pattern } from 'acorn';

import type { FunctionSpec } from '../../../../../proto/gen/capstan/v1/nodes.ts';
import { checkOf, type Check } from '../../../../../lib/schema-values.ts';
import type { Handler } from './module.ts';

export interface Signature {
  readonly style: 'positional' | 'object' | 'whole';
  readonly parameters: readonly TakenParameter[];
  /** Index of the context among the arguments; absent when it is last. */
  readonly contextAt?: number | undefined;
}

export interface TakenParameter {
  readonly name: string;
  readonly required: boolean;
  /** As in ParameterSpec; absent when unknown. */
  readonly type?: string;
  /** Of the schema that the build read; absent when there is none. */
  readonly check?: Check | undefined;
}

const WHOLE: Signature = { style: 'whole', parameters: [] };

// Only types are imported from the generated code: loading it would cost each host the whole gRPC library.
export function signatureOf(fn: Handler, spec: Pick<FunctionSpec, 'callStyle' | 'parameters'>): Signature {
  switch (spec.callStyle) {
    case 'CALL_STYLE_POSITIONAL':
      return { style: 'positional', parameters: spec.parameters.map(withCheck), ...contextOf(fn, spec) };
    case 'CALL_STYLE_OBJECT':
      return { style: 'object', parameters: spec.parameters.map(withCheck), ...contextOf(fn, spec) };
    case 'CALL_STYLE_WHOLE':
      // The schema of a function that validates by itself only documents: its parameter has no type.
      return {
        style: 'whole',
        parameters: spec.parameters.filter(({ type, takesBody }) => takesBody === true && type !== '').map(withCheck),
        ...contextOf(fn, spec),
      };
    default:
      return readSignature(fn);
  }
}

/** The build leaves the context out of the parameters: its place is in the function's own source. */
function contextOf(fn: Handler, { parameters }: Pick<FunctionSpec, 'parameters'>): Pick<Signature, 'contextAt'> {
  // Its type may make it a value of the caller.
  if (parameters.some(({ name }) => name === 'ctx')) return {};
  const text = fn.toString();
  const node = text.includes('ctx') ? parseFunction(text) : undefined;
  const contextAt = node === undefined ? undefined : contextIndex(node.params.map(unwrap));
  return contextAt === undefined ? {} : { contextAt };
}

/** Returns the index of the parameter that receives the context: `ctx` at any place, otherwise a last `context`. */
function contextIndex(parameters: readonly { readonly pattern: Pattern }[]): number | undefined {
  const isNamed = ({ pattern }: { readonly pattern: Pattern }, name: string): boolean =>
    pattern.type === 'Identifier' && pattern.name === name;
  const found = parameters.findIndex((each) => isNamed(each, 'ctx'));
  if (found !== -1) return found;
  const last = parameters.at(-1);
  return last !== undefined && isNamed(last, 'context') ? parameters.length - 1 : undefined;
}

function withCheck<P extends { readonly schema?: string | undefined }>(parameter: P): P & { readonly check?: Check } {
  const check = checkOf(parameter.schema);
  return check === undefined ? parameter : { ...parameter, check };
}

/**
 * Parses the function's source. A function that cannot be parsed (native, bound, a rest parameter) receives the whole
 * input.
 */
export function readSignature(fn: Handler): Signature {
  const node = parseFunction(fn.toString());
  if (node === undefined) return WHOLE;
  const all = node.params.map(unwrap);
  const contextAt = contextIndex(all);
  const parameters = all.filter((_each, index) => index !== contextAt);
  const whole: Signature = { ...WHOLE, contextAt };
  const first = parameters[0];
  if (first?.pattern.type === 'ObjectPattern' && parameters.length <= 2) {
    const keys = [];
    for (const property of first.pattern.properties) {
      if (property.type === 'RestElement' || property.computed) return whole;
      const { key } = property;
      const name = key.type === 'Identifier' ? key.name : key.type === 'Literal' ? String(key.value) : undefined;
      if (name === undefined) return whole;
      keys.push({ name, required: property.value.type !== 'AssignmentPattern' });
    }
    return { style: 'object', parameters: keys, contextAt };
  }
  const names = [];
  for (const { pattern, required } of parameters) {
    if (pattern.type !== 'Identifier') return whole;
    names.push({ name: pattern.name, required });
  }
  return names.length === 1 && names[0]?.name === 'input' ? whole : { style: 'positional', parameters: names, contextAt };
}

function unwrap(pattern: Pattern): { readonly pattern: Pattern; readonly required: boolean } {
  return pattern.type === 'AssignmentPattern' ? { pattern: pattern.left, required: false } : { pattern, required: true };
}

/** A function's source is an expression, or a method of an object or a class. */
function parseFunction(text: string): FunctionNode | undefined {
  const parse = (source: string): Expression | undefined => {
    try {
      // A method alone does not show the private fields of its class.
      return parseExpressionAt(source, 0, { ecmaVersion: 'latest', checkPrivateFields: false });
    } catch (error) {
      // Not this form: the caller tries the next one, and finally passes the whole input.
      if (error instanceof SyntaxError) return undefined;
      throw error;
    }
  };
  const expression = parse(`(${text})`);
  if (expression?.type === 'FunctionExpression' || expression?.type === 'ArrowFunctionExpression') return expression;
  const object = parse(`({${text}})`);
  const property = object?.type === 'ObjectExpression' ? object.properties[0] : undefined;
  return property?.type === 'Property' && property.value.type === 'FunctionExpression' ? property.value : undefined;
}
