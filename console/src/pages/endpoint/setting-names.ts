/** Which settings endpoints have: the schema says so, with their meaning and whether they can be changed without a build. */
import type { AllSettings, Operation } from '../../api/graphql/gen/operations.ts';
import { ENDPOINT_SETTINGS } from '../../../../lib/endpoint-settings.ts';
import type { SettingRule } from '../../../../lib/setting-rules.ts';
import { graphql } from '../../api/request.ts';

interface TypeRef {
  readonly kind: string;
  readonly name: string | null;
  readonly ofType: TypeRef | null;
}

export interface Field {
  readonly name: string;
  readonly description: string | null;
  readonly type: TypeRef;
}

export interface Schema {
  readonly all: { readonly fields: readonly Field[] };
  readonly changeable: { readonly inputFields: readonly Field[] };
}

export type Value = string | number | boolean | readonly string[] | null;
export type Values = Readonly<Record<string, Value>>;

const SCHEMA: Operation<Schema, unknown> = `{
  all: __type(name: "Settings") { fields { name description type { ...ref } } }
  changeable: __type(name: "EndpointSettings") { inputFields { name description type { ...ref } } }
}
fragment ref on __Type { kind name ofType { kind name ofType { kind name } } }`;

export function readSchema(signal: AbortSignal): Promise<Schema> {
  return graphql(SCHEMA, {}, signal);
}

/** The settings by name; none of an endpoint that does not exist any more. */
export function valuesOf(settings: AllSettings | undefined): Values {
  return { ...settings } as Values;
}

export function plainType({ kind, name, ofType }: TypeRef): string {
  if (kind === 'LIST') return 'list';
  return name ?? (ofType === null ? '' : plainType(ofType));
}

/** The only values of a setting; undefined for one that takes others. */
export function choicesOf(name: string): readonly string[] | undefined {
  const rule = (ENDPOINT_SETTINGS as Readonly<Record<string, { readonly rule: SettingRule }>>)[name]?.rule;
  return rule?.type === 'choice' ? rule.values : undefined;
}

/** A value as text; empty for none. */
export function shown(value: Value): string {
  if (value === null) return '';
  if (Array.isArray(value)) return value.join(', ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
