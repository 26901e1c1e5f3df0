/** Ranges of versions as `engines.node` of package.json writes them: `>=20 <25`, `^22.1`, `20.x || 24`, `18 - 24`. */

type Version = readonly [major: number, minor: number, patch: number];

const COMPARATOR = /^([<>]=?|=|\^|~>?)?\s*v?(\d+|[xX*])(?:\.(\d+|[xX*]))?(?:\.(\d+|[xX*]))?(?:[-+][\w.+-]+)?$/;

/** Returns whether the range allows the version, `24.1.0`; true for a range that is not understood. */
export function allowsNode(range: string, version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map(Number);
  const results = range.split('||').map((each) => allows(each.trim(), [major, minor, patch]));
  return results.some((each) => each !== false);
}

/** Undefined for what is no range. */
function allows(text: string, version: Version): boolean | undefined {
  const joined = text.replace(/\s+-\s+/, ' - ').replace(/([<>=^~])\s+/g, '$1');
  const [, from, to] = /^(\S+) - (\S+)$/.exec(joined) ?? [];
  const words = from === undefined || to === undefined ? joined.split(/\s+/).filter((each) => each !== '') : [`>=${from}`, `<=${to}`];
  const results = words.map((word) => compares(word, version));
  if (results.includes(false)) return false;
  return results.includes(undefined) ? undefined : true;
}

function compares(word: string, version: Version): boolean | undefined {
  const [found, operator = '', ...texts] = COMPARATOR.exec(word) ?? [];
  if (found === undefined) return undefined;
  const given = texts.map((each) => (each === undefined || /^[xX*]$/.test(each) ? undefined : Number(each)));
  const [major, minor, patch] = given;
  if (major === undefined) return true;
  const lowest: Version = [major, minor ?? 0, minor === undefined ? 0 : (patch ?? 0)];
  /** The first version after those that a partial version stands for. */
  const after: Version = minor === undefined ? [major + 1, 0, 0] : patch === undefined ? [major, minor + 1, 0] : [major, minor, patch + 1];
  switch (operator) {
    case '>=':
      return order(version, lowest) >= 0;
    case '>':
      return order(version, after) >= 0;
    case '<':
      return order(version, lowest) < 0;
    case '<=':
      return order(version, after) < 0;
    case '^':
      return order(version, lowest) >= 0 && order(version, nextBreaking(lowest, minor, patch)) < 0;
    case '~':
    case '~>':
      return order(version, lowest) >= 0 && order(version, minor === undefined ? [major + 1, 0, 0] : [major, minor + 1, 0]) < 0;
    default:
      return order(version, lowest) >= 0 && order(version, after) < 0;
  }
}

/** The first version that `^` excludes: it keeps the leftmost number that is not 0. */
function nextBreaking([major, minor, patch]: Version, givenMinor: number | undefined, givenPatch: number | undefined): Version {
  if (major > 0 || givenMinor === undefined) return [major + 1, 0, 0];
  if (minor > 0 || givenPatch === undefined) return [0, minor + 1, 0];
  return [0, 0, patch + 1];
}

function order(a: Version, b: Version): number {
  return a[0] - b[0] || a[1] - b[1] || a[2] - b[2];
}
