/** The operations of a client in TypeScript: their texts, and what they take and return. */
import {
  getNamedType,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isObjectType,
  Kind,
  NoUnusedFragmentsRule,
  parse,
  print,
  specifiedRules,
  stripIgnoredCharacters,
  typeFromAST,
  validate,
  visit,
  type DefinitionNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLEnumType,
  type GraphQLInputObjectType,
  type GraphQLInputType,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLSchema,
  type OperationDefinitionNode,
  type SelectionNode,
  type SelectionSetNode,
} from 'graphql';

import { enumDeclaration, HEADER, inputs, inputType, scalarType } from './schema-types.ts';

/** A fragment without an operation is for operations that a client puts together at runtime: its text is written, too. */
const RULES = specifiedRules.filter((rule) => rule !== NoUnusedFragmentsRule);

const OPERATION = `/** Text of an operation, with the types of its result and its variables. */
export type Operation<Result, Variables> = string & { readonly _result?: Result; readonly _variables?: Variables };
`;

/** Returns the file of the operations and fragments in `text`. Throws if the schema does not permit one. */
export function operationTypes(schema: GraphQLSchema, text: string): string {
  const document = parse(`${text}\n${settingsFragment(schema, text)}`);
  const violations = validate(schema, document, RULES);
  if (violations.length > 0) throw new Error(violations.map((violation) => violation.toString()).join('\n'));
  const fragments = document.definitions.filter((definition) => definition.kind === Kind.FRAGMENT_DEFINITION);
  const operations = document.definitions.filter((definition) => definition.kind === Kind.OPERATION_DEFINITION);
  const used = new Set(document.definitions.flatMap(spreads));
  const writer = new Writer(schema, fragments);
  const parts = [
    ...fragments.flatMap((fragment) => [writer.fragment(fragment), ...(used.has(fragment.name.value) ? [] : [writer.selection(fragment)])]),
    ...operations.map((operation) => writer.operation(operation)),
  ];
  return [HEADER + OPERATION, ...writer.named(), ...parts].join('\n');
}

/** The fragment of all settings, which follow from their definition; only where an operation uses it. */
function settingsFragment(schema: GraphQLSchema, text: string): string {
  const type = schema.getType('Settings');
  return isObjectType(type) && text.includes('...AllSettings')
    ? `fragment AllSettings on Settings { ${Object.keys(type.getFields()).join(' ')} }`
    : '';
}

class Writer {
  readonly #schema: GraphQLSchema;
  readonly #fragments: ReadonlyMap<string, FragmentDefinitionNode>;
  readonly #enums = new Map<string, GraphQLEnumType>();
  readonly #inputs = new Map<string, GraphQLInputObjectType>();

  constructor(schema: GraphQLSchema, fragments: readonly FragmentDefinitionNode[]) {
    this.#schema = schema;
    this.#fragments = new Map(fragments.map((fragment) => [fragment.name.value, fragment]));
  }

  fragment({ name, typeCondition, selectionSet }: FragmentDefinitionNode): string {
    const type = this.#schema.getType(typeCondition.name.value);
    if (!isObjectType(type)) throw new Error(`${name.value}: is not of an object`);
    return `export interface ${name.value} ${this.#object(type, this.#fields(selectionSet))}\n`;
  }

  /** The text of a fragment's fields. */
  selection({ name, selectionSet }: FragmentDefinitionNode): string {
    const text = stripIgnoredCharacters(print(this.#spliced(selectionSet)));
    return `export const ${constantOf(name.value)} = ${quoted(text.slice(1, -1))};\n`;
  }

  operation(operation: OperationDefinitionNode): string {
    const name = operation.name?.value;
    const root = this.#schema.getRootType(operation.operation);
    if (name === undefined || root === null || root === undefined) throw new Error('an operation has no name');
    const result = `export interface ${name}Result ${this.#object(root, this.#fields(operation.selectionSet))}\n`;
    const variables = `export type ${name}Variables = ${this.#variables(operation)};\n`;
    const text = stripIgnoredCharacters(print({ ...operation, selectionSet: this.#spliced(operation.selectionSet) }));
    return `${result}${variables}export const ${constantOf(name)} =\n  ${quoted(text)} as Operation<${name}Result, ${name}Variables>;\n`;
  }

  /** Declarations of the enums and inputs that the operations name. */
  named(): string[] {
    const objects = [...this.#inputs.values()].map((type) => inputs(type.name, Object.values(type.getFields()), 'caller'));
    return [...[...this.#enums.values()].map(enumDeclaration), ...objects];
  }

  #variables({ variableDefinitions = [] }: OperationDefinitionNode): string {
    if (variableDefinitions.length === 0) return 'Readonly<Record<string, never>>';
    const lines = variableDefinitions.map(({ variable, type: node }) => {
      const type = typeFromAST(this.#schema, node) as GraphQLInputType;
      this.#name(type);
      const written = inputType(type, 'caller');
      const name = variable.name.value;
      return isNonNullType(type) ? `  readonly ${name}: ${written};` : `  readonly ${name}?: ${written} | null | undefined;`;
    });
    return `{\n${lines.join('\n')}\n}`;
  }

  /** Notes a type whose declaration the file needs, with those that it names. */
  #name(type: GraphQLInputType): void {
    const named = getNamedType(type);
    if (isEnumType(named)) this.#enums.set(named.name, named);
    if (!isInputObjectType(named) || this.#inputs.has(named.name)) return;
    this.#inputs.set(named.name, named);
    for (const field of Object.values(named.getFields())) this.#name(field.type);
  }

  /** The fields of a selection, those of its fragments among them. */
  #fields({ selections }: SelectionSetNode): FieldNode[] {
    return selections.flatMap((selection) => {
      if (selection.kind === Kind.FIELD) return [selection];
      if (selection.kind === Kind.FRAGMENT_SPREAD) return this.#fields(this.#fragmentOf(selection.name.value).selectionSet);
      throw new Error('inline fragments are not supported');
    });
  }

  #fragmentOf(name: string): FragmentDefinitionNode {
    const fragment = this.#fragments.get(name);
    if (fragment === undefined) throw new Error(`${name}: is not a fragment`);
    return fragment;
  }

  #spliced({ selections }: SelectionSetNode): SelectionSetNode {
    const fields = (nodes: readonly SelectionNode[]): SelectionNode[] =>
      nodes.flatMap((node) => {
        if (node.kind === Kind.FRAGMENT_SPREAD) return fields(this.#fragmentOf(node.name.value).selectionSet.selections);
        if (node.kind !== Kind.FIELD || node.selectionSet === undefined) return [node];
        return [{ ...node, selectionSet: this.#spliced(node.selectionSet) }];
      });
    return { kind: Kind.SELECTION_SET, selections: fields(selections) };
  }

  #object(type: GraphQLObjectType, fields: readonly FieldNode[]): string {
    const known = type.getFields();
    const lines = fields.map((node) => {
      const key = node.alias?.value ?? node.name.value;
      if (node.name.value === '__typename') return `readonly ${key}: '${type.name}';`;
      const field = known[node.name.value];
      if (field === undefined) throw new Error(`${type.name}.${node.name.value}: does not exist`);
      return `readonly ${key}: ${this.#output(field.type, node, `${type.name}.${field.name}`)};`;
    });
    return `{\n${[...new Set(lines)].map((line) => `  ${line.replaceAll('\n', '\n  ')}`).join('\n')}\n}`;
  }

  #output(type: GraphQLOutputType, node: FieldNode, field: string): string {
    if (isNonNullType(type)) return this.#value(type.ofType, node, field);
    return `${this.#value(type, node, field)} | null`;
  }

  #value(type: GraphQLOutputType, node: FieldNode, field: string): string {
    if (isListType(type)) {
      const item = this.#output(type.ofType, node, field);
      return `readonly ${item.endsWith(' | null') || (item.includes(' ') && !item.startsWith('{')) ? `(${item})` : item}[]`;
    }
    if (isObjectType(type)) return this.#selected(type, node);
    if (isEnumType(type)) {
      this.#enums.set(type.name, type);
      return type.name;
    }
    return scalarType(getNamedType(type).name, field);
  }

  /** A selection that is one fragment has the fragment's type. */
  #selected(type: GraphQLObjectType, { selectionSet }: FieldNode): string {
    if (selectionSet === undefined) throw new Error(`${type.name}: nothing is selected`);
    const [only, ...others] = selectionSet.selections;
    if (only?.kind === Kind.FRAGMENT_SPREAD && others.length === 0) return only.name.value;
    return this.#object(type, this.#fields(selectionSet));
  }
}

function constantOf(name: string): string {
  return name.replaceAll(/(?<=[a-z0-9])(?=[A-Z])/g, '_').toUpperCase();
}

/** The names of the fragments that a definition uses. */
function spreads(definition: DefinitionNode): string[] {
  const names: string[] = [];
  visit(definition, { FragmentSpread: ({ name }) => void names.push(name.value) });
  return names;
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
