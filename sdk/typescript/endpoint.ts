/** `Endpoint`: one name for handles of deployed endpoints and for declarations. */
import { EndpointClient, type EndpointOptions } from './client.ts';
import { Declaration } from './declaration.ts';
import { DeclarationError } from './errors.ts';
import type { EndpointSettings } from './settings.ts';

export interface EndpointConstructor {
  /** Creates a handle of a deployed endpoint. @throws TypeError when there is no API key. */
  new <Input extends object = Record<string, unknown>, Output = unknown>(
    id: string,
    options?: EndpointOptions,
  ): EndpointClient<Input, Output>;
  new <Input extends object = Record<string, unknown>, Output = unknown>(
    options: EndpointOptions & { readonly id: string; readonly name?: never },
  ): EndpointClient<Input, Output>;
  /** Declares an endpoint: bind routes to it, or set an `image` that serves by itself. @throws DeclarationError */
  new (settings: EndpointSettings & { readonly id?: never }): Declaration;
}

function construct(first: string | (EndpointOptions & { readonly id: string }) | EndpointSettings, options?: EndpointOptions): unknown {
  if (typeof first === 'string') return new EndpointClient(first, options);
  if (typeof first !== 'object' || first === null)
    throw new DeclarationError('Endpoint: requires an id, new Endpoint("<endpoint id>"), or a name to declare one, new Endpoint({ name })');
  if (!('id' in first) || first.id === undefined) return new Declaration(first as EndpointSettings);
  if ('name' in first)
    throw new DeclarationError('Endpoint: id and name are mutually exclusive: an id refers to a deployed endpoint, a name declares one');
  const { id, ...rest } = first;
  return new EndpointClient(id, rest);
}

/** The returned handle or declaration replaces the new object. */
export const Endpoint = function Endpoint(first: string, options?: EndpointOptions): unknown {
  return construct(first, options);
} as unknown as EndpointConstructor;

export type Endpoint<Input extends object = Record<string, unknown>, Output = unknown> = EndpointClient<Input, Output>;
