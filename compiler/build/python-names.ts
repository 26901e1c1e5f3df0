/** Names of Python packages, and what they need of one another. */

/** PEP 503. */
export function normalised(name: string): string {
  return name.toLowerCase().replaceAll(/[-_.]+/g, '-');
}

/** Returns the package name of a requirement; the text itself for a path or a URL. */
export function requirementName(line: string): string {
  const wheel = /(?:^|\/)([^/]+?)-\d[^/]*\.whl$/.exec(line);
  if (wheel?.[1] !== undefined) return normalised(wheel[1]);
  return normalised(/^\s*([A-Za-z0-9][\w.-]*)(?!\S*:\/\/)/.exec(line)?.[1] ?? line);
}

/** Returns the packages that the roots need, directly or not, without those left out and what only those need. */
export function reachable(
  roots: readonly string[],
  needs: ReadonlyMap<string, ReadonlySet<string>>,
  leaveOut: ReadonlySet<string>,
): Set<string> {
  const found = new Set<string>();
  const waiting = [...roots];
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (found.has(name) || leaveOut.has(name)) continue;
    found.add(name);
    waiting.push(...(needs.get(name) ?? []));
  }
  return found;
}
