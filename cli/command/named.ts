/** What the service has names of: arguments and options with these names are completed. */
export const NAMED = ['endpoint', 'environment', 'node', 'key', 'account', 'secret'] as const;

export type NamedKind = (typeof NAMED)[number];
