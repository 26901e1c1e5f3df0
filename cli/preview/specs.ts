/** Selects an application's endpoints for a preview, each with one container, and their images. */
import { baseImageOf, defaultBaseImage, imageReference } from '../../lib/base-images.ts';
import type { Application, ApplicationEndpoint } from '../../compiler/application/application.ts';
import { ToolError } from '../../terminal/tool-error.ts';

export interface PreviewChoice {
  /** Image of `--image`. */
  readonly image: string | undefined;
  /** Images that the engine has. */
  readonly localImages: readonly string[];
  readonly hasGpu: boolean;
}

export interface PreviewPlan {
  readonly application: Application;
  /** GPU endpoints on a host without one. */
  readonly leftOut: readonly string[];
}

/**
 * An endpoint's own image is used first, then that of `--image`, then the base image of its language.
 * @throws CapstanError CONFIG when an endpoint has none of them, or when no endpoint can be previewed.
 */
export function planPreview(application: Application, choice: PreviewChoice): PreviewPlan {
  const runs = ({ spec }: ApplicationEndpoint): boolean => spec.gpuIds === '' || choice.hasGpu;
  const leftOut = application.endpoints.filter((each) => !runs(each)).map(({ spec }) => spec.name);
  const kept = application.endpoints.filter(runs);
  if (kept.length === 0)
    throw new ToolError(
      'CONFIG',
      `all endpoints require a GPU (${leftOut.join(', ')}); this host has no GPU`,
      'Preview them on a host with a GPU, or deploy them to one.',
    );
  const endpoints = kept.map((each) => ({
    ...each,
    spec: { ...each.spec, runtime: 'container', workersMin: 1, workersMax: 1, imageName: imageFor(each, choice) },
  }));
  return { application: { ...application, endpoints }, leftOut };
}

function imageFor({ spec }: ApplicationEndpoint, { image, localImages }: PreviewChoice): string {
  if (spec.imageName !== '' && baseImageOf(spec.imageName) === null) return spec.imageName;
  if (image !== undefined) return image;
  const [fn] = spec.functions;
  if (fn === undefined)
    throw new ToolError('CONFIG', `${spec.name} has its own program and no image`, 'Set one with --image, or as its imageName.');
  const language = fn.module.endsWith('.py') ? 'python' : 'node';
  const base = defaultBaseImage(language, spec.gpuIds !== '');
  // A manifest may name a tag; any other tag of that base image is suitable, too.
  const named = localImages.find((reference) => spec.imageName !== '' && imageReference(reference) === imageReference(spec.imageName));
  const found = named ?? localImages.find((reference) => baseImageOf(reference) === base);
  if (found !== undefined) return imageReference(found);
  const needs = language === 'python' ? 'python3, 3.8 or newer, on PATH' : 'glibc 2.28 or newer and libstdc++, or Node 22.18 or newer';
  throw new ToolError(
    'CONFIG',
    `${spec.name} has no image, and the engine does not have ${base.name}`,
    `Set an image with --image; it must have ${needs}. Or build the base image from deploy/images/.`,
  );
}
