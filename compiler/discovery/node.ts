/**
 * Reads the declarations of a TypeScript or JavaScript file, `endpoint(…)` and `new Endpoint(…)`, from its syntax tree.
 */
import type { Class, Expression, NewExpression, CallExpression, Statement } from 'oxc-parser';

import { readMethods } from '../signatures/class-methods.ts';
import { parseModule, topLevel, type Callable, type ParsedModule } from '../signatures/exports.ts';
import { CallStyle } from '../../proto/gen/capstan/v1/nodes.ts';
import { described as withDescription, readParameters, UNREAD, type Reading } from '../signatures/parameters.ts';
import { pathViolation } from '../../sdk/typescript/routes.ts';
import { HELD, nodeAppOf } from './app.ts';
import { zodSchema } from '../signatures/zod-schemas.ts';
import type { DeclaredEndpoint, DeclaredFunction, DeclaredMethod } from './declared.ts';
import { literalOf, NotLiteral, type Scope } from './literals.ts';
import { bare, callsWithin, exportedNames, expressionsOf, isClassNode, isFunctionNode } from './node-expressions.ts';
import { namesMember, sdkNamesOf, type SdkNames } from './node-sdk-names.ts';
import { keyOf } from '../signatures/property-key.ts';
import { broken, nestedWarning, notLiteral, settingsOf, type Argument, type LookUp, type Place } from './settings.ts';

const METHODS = new Set(['get', 'post', 'put', 'delete', 'patch']);

/** An endpoint while its file is being read. */
interface Open {
  readonly endpoint: DeclaredEndpoint & { functions: DeclaredFunction[] };
}

export interface NodeFile {
  readonly endpoints: readonly DeclaredEndpoint[];
  /** Declarations that are not at the top level. */
  readonly warnings: readonly string[];
}

/** @throws CapstanError INVALID_MANIFEST with file and line. */
export async function readNodeFile(file: { path: string; source: string }, folder: string, lookUp: LookUp): Promise<NodeFile> {
  const module = parseModule(file, folder);
  const names = sdkNamesOf(module);
  if (names.short.size === 0 && names.long.size === 0 && names.packages.size === 0) return { endpoints: [], warnings: [] };
  return new FileReader(module, names, { folder, lookUp }).read();
}

const WITHIN: Readonly<Record<string, string>> = {
  IfStatement: 'if',
  TryStatement: 'try',
  ForStatement: 'for',
  ForOfStatement: 'for',
  ForInStatement: 'for',
  WhileStatement: 'while',
  SwitchStatement: 'switch',
  BlockStatement: 'a block',
  FunctionDeclaration: 'a function',
  ClassDeclaration: 'a class',
};

function withinOf(statement: Statement): string {
  const { type } = statement.type === 'ExportNamedDeclaration' ? (statement.declaration ?? statement) : statement;
  return WITHIN[type] ?? 'an expression';
}

/** A route's method, and the variable that holds its function. */
interface RouteCall {
  readonly method: string;
  readonly variable: string | null;
  readonly isExported: boolean;
}

class FileReader {
  readonly #module: ParsedModule;
  readonly #names: SdkNames;
  readonly #lookUp: LookUp;
  readonly #folder: string;
  readonly #found: Open[] = [];
  /** Offsets of the calls that were read. */
  readonly #read = new Set<number>();
  /** Declarations by the variable that holds them. */
  readonly #held = new Map<string, Open>();

  constructor(module: ParsedModule, names: SdkNames, { folder, lookUp }: { readonly folder: string; readonly lookUp: LookUp }) {
    this.#module = module;
    this.#folder = folder;
    this.#names = names;
    this.#lookUp = lookUp;
  }

  async read(): Promise<NodeFile> {
    const exported = exportedNames(this.#module.program.body);
    for (const statement of this.#module.program.body) {
      for (const { expression, variable } of expressionsOf(statement)) {
        await this.#expression(
          expression,
          variable,
          variable !== null && (exported.has(variable) || statement.type === 'ExportNamedDeclaration'),
        );
      }
    }
    const endpoints = this.#found.map(({ endpoint }) => endpoint);
    const warnings = this.#module.program.body.flatMap((statement) =>
      callsWithin(statement)
        .filter((node) => !this.#read.has(node.start) && this.#declares(node))
        .map((node) => nestedWarning(this.#module.path, this.#lineOf(node.start), withinOf(statement))),
    );
    return { endpoints, warnings };
  }

  /** Whether a call makes an endpoint: with settings that have a name. */
  #declares(node: NewExpression | CallExpression): boolean {
    const isNamed =
      node.type === 'NewExpression' ? namesMember(node.callee, 'Endpoint', this.#names) : namesMember(node.callee, 'endpoint', this.#names);
    const [settings] = node.arguments;
    return (
      isNamed &&
      settings?.type === 'ObjectExpression' &&
      settings.properties.some((each) => each.type === 'Property' && keyOf(each) === 'name')
    );
  }

  async #expression(given: Expression, variable: string | null, isExported: boolean): Promise<void> {
    const node = bare(given);
    if (node.type === 'NewExpression' && namesMember(node.callee, 'Endpoint', this.#names)) {
      const open = this.#declare(node);
      if (open !== null && variable !== null) this.#held.set(variable, open);
      return;
    }
    if (node.type !== 'CallExpression') return;
    if (namesMember(node.callee, 'endpoint', this.#names)) {
      const open = this.#declare(node);
      if (open !== null) await this.#serve(open, node, variable, isExported);
      return;
    }
    const { callee } = node;
    if (callee.type !== 'MemberExpression' || callee.computed || callee.property.type !== 'Identifier') return;
    if (!METHODS.has(callee.property.name)) return;
    const object = bare(callee.object);
    const open =
      object.type === 'Identifier'
        ? this.#held.get(object.name)
        : object.type === 'NewExpression' && namesMember(object.callee, 'Endpoint', this.#names)
          ? this.#declare(object)
          : undefined;
    if (open !== undefined && open !== null)
      await this.#route(open, node, { method: callee.property.name.toUpperCase(), variable, isExported });
  }

  /** Null for a handle of an existing endpoint: `new Endpoint('<id>')`. */
  #declare(node: NewExpression | CallExpression): Open | null {
    this.#read.add(node.start);
    const place = this.#placeOf(node);
    const [given] = node.arguments;
    if (given === undefined) throw broken(place, 'an endpoint must have settings with a name');
    const settings = given.type === 'SpreadElement' ? given : constantOf(bare(given), this.#names);
    if (settings.type !== 'ObjectExpression') {
      if (node.type === 'NewExpression' && settings.type !== 'SpreadElement') return null;
      throw notLiteral('the settings', this.#text(settings), place);
    }
    const read: Record<string, Argument> = {};
    for (const property of settings.properties) {
      const line = this.#lineOf(property.start);
      const name = property.type === 'Property' ? keyOf(property) : null;
      if (property.type !== 'Property' || name === null) throw notLiteral('a setting', this.#text(property), { ...place, line });
      // The schema is an object of the run time and is checked there.
      if (name !== 'schema') read[name] = name === 'app' ? this.#app(property.value) : this.#argument(property.value);
    }
    if (node.type === 'NewExpression' && 'id' in read && !('name' in read)) return null;
    const checked = settingsOf(read, place, this.#lookUp);
    const endpoint = {
      name: checked.name,
      language: 'node' as const,
      file: this.#module.path,
      place: `${place.file}:${place.line}`,
      settings: checked,
      functions: [] as DeclaredFunction[],
      imports: [],
      app: nodeAppOf(checked, this.#folder, place),
    };
    const open: Open = { endpoint };
    this.#found.push(open);
    return open;
  }

  async #serve({ endpoint }: Open, node: CallExpression, variable: string | null, isExported: boolean): Promise<void> {
    const [settings, fn] = node.arguments;
    // An app or a command has no function.
    if (fn === undefined && (endpoint.settings.app !== undefined || endpoint.settings.command.length > 0)) return;
    if (fn === undefined || fn.type === 'SpreadElement')
      throw broken(this.#placeOf(node), `endpoint ${endpoint.name}: must have a function`);
    const schema = settings === undefined ? undefined : schemaOf(settings);
    endpoint.functions.push(await this.#function(fn, { variable, isExported, schema, otherwise: endpoint.name, route: null }));
  }

  async #route({ endpoint }: Open, node: CallExpression, { method, variable, isExported }: RouteCall): Promise<void> {
    const place = this.#placeOf(node);
    const [first, second, third] = node.arguments;
    if (first === undefined || first.type === 'SpreadElement') throw broken(place, `endpoint ${endpoint.name}: a route must have a path`);
    const path = this.#argument(first);
    if (path.problem !== undefined) throw notLiteral('the path of a route', path.problem, place);
    const violation = pathViolation(path.value);
    if (violation !== null) throw broken(place, `endpoint ${endpoint.name}: the path ${JSON.stringify(path.value)} ${violation}`);
    const fn = third ?? second;
    if (fn === undefined || fn.type === 'SpreadElement')
      throw broken(place, `endpoint ${endpoint.name}: ${method} ${String(path.value)} must have a function`);
    const schema = third === undefined || second === undefined ? undefined : schemaOf(second);
    endpoint.functions.push(
      await this.#function(fn, {
        variable,
        isExported,
        schema,
        otherwise: `${method.toLowerCase()}_${String(path.value)}`,
        route: { method, path: String(path.value) },
      }),
    );
  }

  async #function(
    given: Expression,
    about: {
      variable: string | null;
      isExported: boolean;
      /** The expression of its schema. */
      schema: Expression | undefined;
      otherwise: string;
      route: DeclaredFunction['route'];
    },
  ): Promise<DeclaredFunction> {
    const { variable, isExported, schema, otherwise, route } = about;
    const node = bare(given);
    const place = this.#placeOf(node);
    const local = node.type === 'Identifier' ? topLevel(this.#module.program).get(node.name) : undefined;
    const found = isFunctionNode(node) ? node : typeof local === 'object' && 'type' in local ? local : undefined;
    const ownName = node.type === 'Identifier' ? node.name : found?.id?.name;
    // Other files import the variable; the function's own name comes second.
    const name = variable !== null && isExported ? variable : (ownName ?? variable ?? identifierOf(otherwise));
    const common = { name, isExported, route, place: `${place.file}:${place.line}` };
    if (found === undefined) return { ...common, isClass: false, methods: {}, isAsync: false, isGenerator: false, reading: UNREAD };
    if (isClassNode(found)) {
      if (route !== null) throw broken(place, `the route ${route.method} ${route.path} must have a function, and ${name} is a class`);
      return {
        ...common,
        isClass: true,
        methods: await this.#methods(found),
        isAsync: false,
        isGenerator: false,
        reading: UNREAD,
      };
    }
    const described = await this.#described(found);
    return {
      ...common,
      isClass: false,
      methods: {},
      ...described,
      ...(schema === undefined ? {} : { reading: withDescription(await this.#wholeOf(schema), described.reading.description) }),
    };
  }

  /** The whole input, which the schema validates. Its parameter has no type: the worker does not check it twice. */
  async #wholeOf(schema: Expression): Promise<Reading> {
    const text = await zodSchema(schema, this.#module);
    if (text === undefined) return WHOLE;
    return { ...WHOLE, parameters: [{ name: 'input', required: true, type: '', sample: {}, takesBody: true, schema: text }] };
  }

  async #methods(node: Class): Promise<Record<string, DeclaredMethod>> {
    const methods = await readMethods(node, this.#module);
    return Object.fromEntries(
      methods.map(({ name, isAsync, isGenerator, style, parameters }) => [name, { isAsync, isGenerator, reading: { style, parameters } }]),
    );
  }

  async #described(node: Callable): Promise<DeclaredMethod> {
    return { isAsync: node.async, isGenerator: node.generator, reading: await readParameters(node, this.#module) };
  }

  #argument(node: Expression): Argument {
    try {
      return { line: this.#lineOf(node.start), value: literalOf(node, this.#names) };
    } catch (error) {
      if (!(error instanceof NotLiteral)) throw error;
      return { line: this.#lineOf(error.node.start), problem: this.#text(error.node) };
    }
  }

  /** An application that the file itself holds is any expression; a worker takes it from the declaration. */
  #app(node: Expression): Argument {
    const read = this.#argument(node);
    return read.problem === undefined && typeof read.value === 'string' ? read : { line: read.line, value: HELD };
  }

  #placeOf(node: { readonly start: number }): Place {
    return { file: this.#module.path, line: this.#lineOf(node.start), language: 'node' };
  }

  #lineOf(offset: number): number {
    return this.#module.source.slice(0, offset).split('\n').length;
  }

  #text({ start, end }: { readonly start: number; readonly end: number }): string {
    const text = this.#module.source.slice(start, end).replaceAll(/\s+/g, ' ');
    return text.length <= 80 ? text : `${text.slice(0, 79)}…`;
  }
}

const WHOLE: Reading = { style: CallStyle.WHOLE, parameters: [] };

/** Returns the expression of the key `schema` in settings or in a route's options. */
function schemaOf(node: CallExpression['arguments'][number]): Expression | undefined {
  if (node.type !== 'ObjectExpression') return undefined;
  for (const property of node.properties) if (property.type === 'Property' && keyOf(property) === 'schema') return property.value;
  return undefined;
}

function constantOf(node: Expression, { constants }: Scope): Expression {
  const constant = node.type === 'Identifier' ? constants.get(node.name) : undefined;
  return constant === undefined ? node : bare(constant);
}

/** Returns a name for an anonymous function: `get_/items/{id}` → `get_items_id`. */
function identifierOf(text: string): string {
  const name = text.replaceAll(/[^A-Za-z0-9]+/g, '_').replaceAll(/^_+|_+$/g, '');
  return /^\d/.test(name) || name === '' ? `_${name}` : name;
}
