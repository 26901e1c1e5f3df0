/**
 * Determines how a function takes its input (CallStyle of nodes.proto). The build reports it if it could read the
 * source; otherwise the source of the loaded function is read.
 */
import { parseExpressionAt, type Expression, type Function as FunctionNode, type Pattern } from 'acorn';

import type { FunctionSpec } from '../../../../proto/gen/capstan/v1/nodes.ts';
import { checkOf, type Check } from '../../../../lib/schema-values.ts';
import type { Handler } from './module.ts';

/** A last parameter with one of these names receives the job's context instead of a key of the input. */
const CONTEXT_PARAMETERS: readonly string[] = ['ctx', 'context'];

export interface Signature {
  readonly style: 'positional' | 'object' | 'whole';
  readonly parameters: readonly TakenParameter[];
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
      return { style: 'positional', parameters: spec.parameters.map(withCheck) };
    case 'CALL_STYLE_OBJECT':
      return { style: 'object', parameters: spec.parameters.map(withCheck) };
    case 'CALL_STYLE_WHOLE':
      // The schema of a function that validates by itself only documents: its parameter has no type.
      return {
        style: 'whole',
        parameters: spec.parameters.filter(({ type, takesBody }) => takesBody === true && type !== '').map(withCheck),
      };
    default:
      return readSignature(fn);
  }
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
  const parameters = node.params.map(unwrap);
  const first = parameters[0];
  if (first?.pattern.type === 'ObjectPattern' && parameters.length <= 2) {
    const keys = [];
    for (const property of first.pattern.properties) {
      if (property.type === 'RestElement' || property.computed) return WHOLE;
      const { key } = property;
      const name = key.type === 'Identifier' ? key.name : key.type === 'Literal' ? String(key.value) : undefined;
      if (name === undefined) return WHOLE;
      keys.push({ name, required: property.value.type !== 'AssignmentPattern' });
    }
    return { style: 'object', parameters: keys };
  }
  const names = [];
  for (const { pattern, required } of parameters) {
    if (pattern.type !== 'Identifier') return WHOLE;
    names.push({ name: pattern.name, required });
  }
  const signature = positional(names);
  return signature.parameters.length === 1 && signature.parameters[0]?.name === 'input' ? WHOLE : signature;
}

function positional(parameters: Signature['parameters']): Signature {
  const last = parameters.at(-1);
  return {
    style: 'positional',
    parameters: last !== undefined && CONTEXT_PARAMETERS.includes(last.name) ? parameters.slice(0, -1) : parameters,
  };
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
