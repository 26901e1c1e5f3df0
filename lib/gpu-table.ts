/**
 * Resolves an endpoint's `gpuIds` to devices: a list of groups, types and product names in order of preference; `-NAME`
 * excludes devices. Names are compared as a whole, ignoring case, spaces, punctuation and the vendor's name.
 *
 * MIG slices are selected by name (`MIG 3g.40gb`, on any card; `A100 MIG 3g.40gb`, on that one) and by ANY if they are
 * big enough. No other group or type matches a slice: its name promises a whole card.
 */
import { CapstanError } from './errors.ts';
import { ANY_SLICE_GB, gpuFamilies, gpuTypes, type GpuType } from './gpu-types.ts';

/** The facts of a device that a selection uses. */
export interface GpuFacts {
  readonly model: string;
  readonly memoryBytes: number;
  /** A MIG slice. */
  readonly slice: boolean;
}

/** Additions of operators to the table (docs/gpus.md). */
export interface GpuTableExtension {
  readonly types?: readonly GpuType[];
  /** Group → names of types. */
  readonly groups?: Readonly<Record<string, readonly string[]>>;
}

/** Meaning of one name of a list. */
interface Term {
  readonly text: string;
  /** Product names, normalized; null: any. */
  readonly models: ReadonlySet<string> | null;
  /** Profile of a slice, normalized; null: whole cards (and, for ANY, slices that are big enough). */
  readonly profile: string | null;
}

const ANY = 'any';

/** A compiled `gpuIds`. */
class GpuSelection {
  readonly #wanted: readonly Term[];
  readonly #unwanted: readonly Term[];
  readonly #known = new Map<string, number | null>();

  constructor(wanted: readonly Term[], unwanted: readonly Term[]) {
    this.#wanted = wanted;
    this.#unwanted = unwanted;
  }

  /** Returns the index of the preference that a device matches, from 0; null when it is not wanted. */
  preference(device: GpuFacts): number | null {
    const key = device.slice ? `${device.model} ${device.memoryBytes}` : device.model;
    let found = this.#known.get(key);
    if (found === undefined) {
      const index = this.#unwanted.some((term) => meets(term, device)) ? -1 : this.#wanted.findIndex((term) => meets(term, device));
      found = index === -1 ? null : index;
      // A fleet has few models; a host that reports a new model each time must not exhaust the memory.
      if (this.#known.size < 1_000) this.#known.set(key, found);
    }
    return found;
  }
}

export class GpuTable {
  readonly types: readonly GpuType[];
  /** Group → names of types, groups in alphabetical order. */
  readonly groups: ReadonlyMap<string, readonly string[]>;
  /** Normalized name of a group, family, type or product → normalized product names. */
  readonly #names = new Map<string, { readonly text: string; readonly models: ReadonlySet<string> }>();
  readonly #selections = new Map<string, GpuSelection>();

  /** Throws CONFIG when the extension contradicts itself. */
  constructor(extension: GpuTableExtension = {}) {
    const added = extension.types ?? [];
    const replaced = new Set(added.map(({ name }) => plainName(name)));
    this.types = [...added, ...gpuTypes.filter(({ name }) => !replaced.has(plainName(name)))];
    const byName = new Map(this.types.map((each) => [plainName(each.name), each]));
    if (byName.size < this.types.length) throw contradiction('types', 'a type is listed twice');
    const models = new Map<string, string>();
    for (const { name, models: own } of this.types) {
      if (plainName(name) === ANY) throw contradiction('types', `${name} is the reserved name of the group of all types`);
      for (const model of own) {
        const other = models.get(plainName(model));
        if (other !== undefined && other !== name) throw contradiction('types', `${model} is a model of both ${name} and ${other}`);
        models.set(plainName(model), name);
      }
    }
    this.groups = groupsOf(this.types, extension.groups ?? {}, byName);
    const modelsOf = (names: readonly string[]): Set<string> =>
      new Set(names.flatMap((name) => (byName.get(plainName(name))?.models ?? []).map(plainName)));
    for (const each of this.types) for (const model of each.models) this.#name(model, new Set([plainName(model)]));
    for (const each of this.types) this.#name(each.name, modelsOf([each.name]));
    for (const [family, members] of Object.entries(gpuFamilies)) this.#name(family, modelsOf(members));
    for (const [group, members] of this.groups) {
      if (byName.has(plainName(group)) || plainName(group) === ANY)
        throw contradiction('groups', `${group} is already the name of a type or model`);
      this.#name(group, modelsOf(members));
    }
  }

  /**
   * Validates a list; `fleet` are models of nodes, in the table or not.
   * @returns the violation, or null.
   */
  fault(gpuIds: string, fleet: Iterable<string>): string | null {
    const present = new Set([...fleet].map((model) => plainName(model)));
    const terms = split(gpuIds);
    if (terms.length === 0) return 'must name a GPU type or group';
    for (const { text, excluded } of terms) {
      if (excluded && plainName(text) === ANY) return `-${text} excludes every GPU`;
      if (this.#term(text) !== null || present.has(plainName(text))) continue;
      const near = this.#near(text, fleet);
      const hint = near.length === 0 ? `groups are ANY, ${[...this.groups.keys()].join(', ')}` : `close matches: ${near.join(', ')}`;
      return `${JSON.stringify(text)} is not a GPU type or group; ${hint}`;
    }
    return null;
  }

  /** Compiles a validated list; an unknown name (or one that was removed) means the product of that name. */
  select(gpuIds: string): GpuSelection {
    let selection = this.#selections.get(gpuIds);
    if (selection === undefined) {
      const terms = split(gpuIds).map(({ text, excluded }) => ({ term: this.#term(text) ?? product(text), excluded }));
      const wanted = terms.filter(({ excluded }) => !excluded).map(({ term }) => term);
      const unwanted = terms.filter(({ excluded }) => excluded).map(({ term }) => term);
      // Only exclusions: all other devices.
      selection = new GpuSelection(wanted.length === 0 ? [{ text: 'ANY', models: null, profile: null }] : wanted, unwanted);
      this.#selections.set(gpuIds, selection);
    }
    return selection;
  }

  #name(text: string, models: ReadonlySet<string>): void {
    this.#names.set(plainName(text), { text, models });
  }

  #term(text: string): Term | null {
    const [, card = '', profile] = /^(.*?)\s*\bMIG[ _-]?(\d+c?\.?\d*g\.\d+gb(?:\+\S+)?)$/i.exec(text) ?? [];
    const name = profile === undefined ? text : card;
    const slice = profile === undefined ? null : plainName(profile);
    if (plainName(name) === ANY || (slice !== null && plainName(name) === '')) return { text, models: null, profile: slice };
    const known = this.#names.get(plainName(name));
    return known === undefined ? null : { text, models: known.models, profile: slice };
  }

  /** Returns known names similar to an unknown one, at most 4. */
  #near(text: string, fleet: Iterable<string>): string[] {
    const names = new Set([...this.groups.keys(), ...this.types.map(({ name }) => name), ...Object.keys(gpuFamilies), ...fleet]);
    return [...names]
      .map((name) => ({ name, likeness: likeness(plainName(text), plainName(name)) }))
      .filter((entry) => entry.likeness >= 0.5)
      .sort((a, b) => b.likeness - a.likeness || (a.name < b.name ? -1 : 1))
      .slice(0, 4)
      .map(({ name }) => name);
  }
}

/** Normalizes a name for comparison: without case, spaces, punctuation and the vendor. */
function plainName(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '')
    .replace(/^nvidia/, '');
}

function split(gpuIds: string): { readonly text: string; readonly excluded: boolean }[] {
  return gpuIds
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '' && part !== '-')
    .map((part) => (part.startsWith('-') ? { text: part.slice(1).trim(), excluded: true } : { text: part, excluded: false }));
}

function product(text: string): Term {
  return { text, models: new Set([plainName(text)]), profile: null };
}

function meets({ models, profile }: Term, device: GpuFacts): boolean {
  if (!device.slice) return profile === null && (models === null || models.has(plainName(device.model)));
  const [card = '', own = ''] = device.model.split(/ MIG ?/, 2);
  if (profile === null) return models === null && device.memoryBytes >= ANY_SLICE_GB * 1e9;
  return plainName(own) === profile && (models === null || models.has(plainName(card)));
}

function groupsOf(
  types: readonly GpuType[],
  added: Readonly<Record<string, readonly string[]>>,
  byName: ReadonlyMap<string, GpuType>,
): ReadonlyMap<string, readonly string[]> {
  const groups = new Map<string, string[]>();
  const add = (group: string, name: string): void => {
    const members = groups.get(group) ?? [];
    if (!members.includes(name)) groups.set(group, [...members, name]);
  };
  for (const { name, groups: own } of types) for (const group of own) add(group, name);
  for (const [group, members] of Object.entries(added)) {
    for (const member of members) {
      const known = byName.get(plainName(member));
      if (known === undefined) throw contradiction(`groups.${group}`, `${JSON.stringify(member)} is not a type in the table`);
      add(group, known.name);
    }
  }
  return new Map([...groups].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Returns the share of letter pairs that two names have in common, 0 to 1. */
function likeness(a: string, b: string): number {
  if (a.length < 2 || b.length < 2) return a === b ? 1 : 0;
  if (a.includes(b) || b.includes(a)) return 0.9;
  const pairs = (text: string): string[] => Array.from({ length: text.length - 1 }, (_, i) => text.slice(i, i + 2));
  const left = pairs(b);
  let common = 0;
  for (const pair of pairs(a)) {
    const at = left.indexOf(pair);
    if (at === -1) continue;
    common++;
    left.splice(at, 1);
  }
  return (2 * common) / (a.length + b.length - 2);
}

function contradiction(field: string, rule: string): CapstanError {
  return new CapstanError('CONFIG', `${field}: ${rule}`, { field });
}
