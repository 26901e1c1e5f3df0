/** Runs one GraphQL request: text to document (cached), limits, execution, and errors with Capstan's codes. */
import {
  GraphQLError,
  GraphQLScalarType,
  Kind,
  execute,
  getOperationAST,
  parse,
  validate,
  type DocumentNode,
  type FormattedExecutionResult,
  type ValueNode,
} from 'graphql';
import { LRUCache } from 'lru-cache';

import { CapstanError } from '../../lib/errors.ts';
import { INTERNAL_ERROR } from '../../lib/http-messages.ts';
import type { Log } from '../log.ts';
import { refusalOf } from './errors.ts';
import { checkLimits, checkText } from './limits.ts';
import { readSpec } from './endpoint-form.ts';
import { rootFor, type RootDeps } from './root.ts';
import { schema } from './schema.ts';

/** Number of queries whose document is cached. */
const REMEMBERED = 200;
/** Longer texts are not cached. */
const REMEMBERED_LENGTH = 20_000;

export interface GraphqlRequest {
  readonly query: string;
  readonly operationName?: string | null | undefined;
  readonly variables?: Readonly<Record<string, unknown>> | null | undefined;
}

export interface GraphqlReply {
  readonly status: number;
  readonly body: FormattedExecutionResult;
}

const spec = schema.getType('EndpointSpec');
if (spec instanceof GraphQLScalarType) {
  spec.coerceInputValue = readSpec;
  spec.coerceInputLiteral = (node) => readSpec(valueOf(node));
}

export class GraphqlRunner {
  readonly #documents = new LRUCache<string, DocumentNode>({ max: REMEMBERED });
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  async run(request: GraphqlRequest, deps: RootDeps): Promise<GraphqlReply> {
    let document: DocumentNode;
    try {
      document = this.#document(request.query);
    } catch (thrown) {
      return { status: 400, body: { errors: errorsOf(thrown).map((error) => error.toJSON()) } };
    }
    const operation = getOperationAST(document, request.operationName);
    if (operation === null || operation === undefined) {
      const why = 'operationName: is required when the query has several operations, and must name one of them';
      return { status: 400, body: { errors: [refusalOf(new CapstanError('INVALID_ARGUMENT', why, { field: 'operationName' }))] } };
    }
    const result = await execute({
      schema,
      document,
      rootValue: rootFor(deps),
      variableValues: request.variables ?? {},
      operationName: request.operationName ?? null,
    });
    if (result.errors === undefined) return { status: 200, body: { data: result.data ?? null } };
    const errors = result.errors.map((error) => this.#explain(error).toJSON());
    // No data: nothing was executed, because the variables do not match.
    return 'data' in result ? { status: 200, body: { errors, data: result.data ?? null } } : { status: 400, body: { errors } };
  }

  #document(query: string): DocumentNode {
    const known = this.#documents.get(query);
    if (known !== undefined) return known;
    checkText(query);
    const document = parse(query);
    checkLimits(document);
    const violations = validate(schema, document);
    if (violations.length > 0) throw new Breaches(violations);
    if (query.length <= REMEMBERED_LENGTH) this.#documents.set(query, document);
    return document;
  }

  /** Internal errors are logged; the caller receives no detail. */
  #explain(error: GraphQLError): GraphQLError {
    const { cause } = error;
    if (cause === undefined) return coded(error, 'INVALID_ARGUMENT');
    if (cause instanceof CapstanError && cause.code !== 'INTERNAL') return asGraphql(cause, error);
    if (cause instanceof GraphQLError) return coded(error, 'INVALID_ARGUMENT');
    this.#log.error({ err: cause, path: error.path }, 'a GraphQL field failed');
    return asGraphql(new CapstanError('INTERNAL', INTERNAL_ERROR), error);
  }
}

/** The error in GraphQL's shape, with its code and extensions. */
function asGraphql(error: CapstanError, at?: GraphQLError): GraphQLError {
  const { message, extensions } = refusalOf(error);
  return new GraphQLError(message, {
    ...(at?.nodes === undefined ? {} : { nodes: at.nodes }),
    ...(at?.path === undefined ? {} : { path: at.path }),
    extensions,
  });
}

class Breaches extends Error {
  readonly errors: readonly GraphQLError[];

  constructor(errors: readonly GraphQLError[]) {
    super('the query is not valid');
    this.errors = errors;
  }
}

function errorsOf(thrown: unknown): GraphQLError[] {
  if (thrown instanceof Breaches) return thrown.errors.slice(0, 10).map((error) => coded(error, 'INVALID_ARGUMENT'));
  if (thrown instanceof GraphQLError) return [coded(thrown, 'INVALID_ARGUMENT')];
  if (thrown instanceof CapstanError) return [asGraphql(thrown)];
  throw thrown;
}

function coded(error: GraphQLError, code: 'INVALID_ARGUMENT'): GraphQLError {
  return asGraphql(new CapstanError(code, error.message), error);
}

/** The JSON value of a literal in the query. */
function valueOf(node: ValueNode): unknown {
  switch (node.kind) {
    case Kind.INT:
    case Kind.FLOAT:
      return Number(node.value);
    case Kind.STRING:
    case Kind.BOOLEAN:
    case Kind.ENUM:
      return node.value;
    case Kind.LIST:
      return node.values.map(valueOf);
    case Kind.OBJECT:
      return Object.fromEntries(node.fields.map((field) => [field.name.value, valueOf(field.value)]));
    default:
      return null;
  }
}
