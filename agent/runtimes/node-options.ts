/** NODE_OPTIONS of workers: those of the agent and those of a release hold together. */

/** Returns an argument as NODE_OPTIONS spells it. */
export function quoted(argument: string): string {
  return /[\s"\\]/.test(argument) ? `"${argument.replaceAll(/["\\]/g, String.raw`\$&`)}"` : argument;
}

/** Returns the variables of a worker, `own`, on those of the agent's, `base`. */
export function withBase(base: Readonly<Record<string, string>>, own: Readonly<Record<string, string>>): Record<string, string> {
  const { NODE_OPTIONS: first } = base;
  const { NODE_OPTIONS: second } = own;
  const options = first === undefined || second === undefined ? {} : { NODE_OPTIONS: `${first} ${second}` };
  return { ...base, ...own, ...options };
}
