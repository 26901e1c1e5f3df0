/** Names of properties in a source. */

/** The name of a property that is not computed; otherwise null. */
export function keyOf(property: { readonly key: { readonly type: string }; readonly computed: boolean }): string | null {
  if (property.computed) return null;
  const key = property.key as { readonly type: string; readonly name?: string; readonly value?: unknown };
  if (key.type === 'Identifier') return key.name ?? null;
  return key.type === 'Literal' ? String(key.value) : null;
}
