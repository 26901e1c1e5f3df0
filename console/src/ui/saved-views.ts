/** Named addresses of the console, in this browser. What is stored may have been written by anything: it is checked when it is read. Pure. */

export interface SavedView {
  readonly name: string;
  /** Below the console's own path: `/endpoints/…?status=FAILED`. */
  readonly path: string;
}

export const MAX_VIEWS = 50;
export const MAX_NAME = 80;
const MAX_PATH = 2_000;

/** A path of the console itself: neither another host nor a scheme. */
function isPath(path: string): boolean {
  return path.length <= MAX_PATH && /^\/(?![/\\])/.test(path);
}

function isView(value: unknown): value is SavedView {
  const { name, path } = (typeof value === 'object' && value !== null ? value : {}) as Partial<Record<keyof SavedView, unknown>>;
  return typeof name === 'string' && name !== '' && name.length <= MAX_NAME && typeof path === 'string' && isPath(path);
}

/** Reads stored text: at most {@link MAX_VIEWS} views, each name once; anything else is left out. */
export function parseViews(text: string | null): readonly SavedView[] {
  let stored: unknown;
  try {
    stored = JSON.parse(text ?? '[]');
  } catch {
    return [];
  }
  if (!Array.isArray(stored)) return [];
  const byName = new Map(stored.filter(isView).map(({ name, path }) => [name, { name, path }]));
  return [...byName.values()].slice(0, MAX_VIEWS);
}

/** Adds a view, in the place of the one with its name. @throws Error that names the field and the rule */
export function withView(views: readonly SavedView[], { name, path }: SavedView): readonly SavedView[] {
  const trimmed = name.trim();
  if (trimmed === '' || trimmed.length > MAX_NAME) throw new Error(`name: must have 1 to ${MAX_NAME} characters`);
  if (!isPath(path)) throw new Error(`path: must be a path of the console of at most ${MAX_PATH} characters`);
  const others = views.filter((view) => view.name !== trimmed);
  if (others.length >= MAX_VIEWS) throw new Error(`views: at most ${MAX_VIEWS} are kept; delete one first`);
  return [...others, { name: trimmed, path }].toSorted((a, b) => a.name.localeCompare(b.name));
}
