/** Which endpoints require a Python or a Node that no connected node has, before anything is uploaded. */
import { baseImageOf, type Language } from '../../lib/base-images.ts';
import type { Application } from '../../compiler/application/application.ts';
import { languageOf, needsOf, type LanguageNeed, type RequiredLanguages } from '../../compiler/build/language-needs.ts';
import type { MachineType } from '../api/nodes.ts';

export type HostLanguages = Pick<MachineType, 'runtimes' | 'images' | 'nodeVersion' | 'pythonVersion'>;

export interface LackingLanguage {
  /** What the endpoint needs, and what there is. */
  readonly text: string;
  /** What follows from it, and what would serve. */
  readonly outcome: string;
}

/** Returns what is lacking for each endpoint whose Python or Node no connected node has. */
export function lackingLanguages(
  { endpoints }: Pick<Application, 'endpoints'>,
  required: RequiredLanguages,
  types: readonly HostLanguages[],
): LackingLanguage[] {
  if (types.length === 0) return [];
  return endpoints.flatMap((endpoint) => {
    const { spec } = endpoint;
    const language = languageOf(endpoint);
    if (language === null || (spec.imageName !== '' && baseImageOf(spec.imageName) === null)) return [];
    // A base image has a Python and a Node of its own, which the node does not report.
    if (types.some((type) => hasBaseImage(type, language))) return [];
    const needs = needsOf(endpoint, language, required);
    if (types.some((type) => needs.every(({ holds }) => holds(type)))) return [];
    const unmet = needs.filter(({ holds }) => !types.some(holds));
    const lacking = unmet.length === 0 ? needs : unmet;
    return [
      {
        text: `endpoint ${spec.name} needs ${lacking.map(({ text }) => text).join(' and ')}, and ${versionsText(language, types)}`,
        outcome: lacking.some(({ isPlaced }) => isPlaced)
          ? `its jobs and requests wait until a node joins that has it${remedy(needs, types)}`
          : `its workers start on what there is, and may fail; a node with it, or an image of your own (image), would serve it`,
      },
    ];
  });
}

function hasBaseImage({ images, runtimes }: HostLanguages, language: Language): boolean {
  return runtimes.includes('container') && images.some((each) => baseImageOf(each)?.language === language);
}

/** Another Python of the build, if all else allows one that a node has. */
function remedy(needs: readonly LanguageNeed[], types: readonly HostLanguages[]): string {
  const others = needs.filter(({ isOfBuild }) => !isOfBuild);
  const type = types.find((each) => others.every(({ holds }) => holds(each)));
  const [, version] = /^(\d+\.\d+)\./.exec(type?.pythonVersion ?? '') ?? [];
  return others.length === needs.length || version === undefined ? '' : `, or is built with --python ${version}`;
}

function versionsText(language: Language, types: readonly HostLanguages[]): string {
  const name = language === 'python' ? 'Python' : 'Node';
  const versions = types.map(({ nodeVersion, pythonVersion }) => (language === 'python' ? pythonVersion : nodeVersion));
  const known = [...new Set(versions.filter((each) => each !== ''))].sort();
  return known.length === 0 ? `no connected node has ${name}` : `the connected nodes have ${name} ${known.join(', ')}`;
}
