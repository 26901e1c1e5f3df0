/** The options of the commands that build. */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import type { BuildOptions } from '../../compiler/build/build.ts';
import { readEnvFile } from '../../compiler/application/env-file.ts';
import { flagOption, textOption, type OptionSpec, type OptionValues } from '../../terminal/options.ts';
import { readDotEnv, type Environment } from '../../terminal/config.ts';

export const buildOptionSpecs: readonly OptionSpec[] = [
  { flags: '--exclude <packages>', description: 'packages to leave out of the artifact, comma-separated' },
  { flags: '--bundle-base-packages', description: 'also bundle the packages of the base image (torch, numpy, …), for hosts without them' },
  { flags: '--python <version>', description: 'Python version of the hosts, such as 3.11', default: 'that of this machine' },
  {
    flags: '--env-file <file>',
    description: "set the variables of this file for every endpoint; a declaration's own env takes precedence",
  },
  { flags: '--refresh', description: 'reinstall the packages' },
  { flags: '--keep-build', description: 'keep .tool/.build' },
];

/**
 * Values of `env` come from the shell, then from the file of `--env-file`, then from `.env` of the project: that of another working folder may belong to
 * another project. @throws CapstanError INVALID_ARGUMENT
 */
export function buildOptions(options: OptionValues, { variables, cwd }: Environment, project: string = cwd): BuildOptions {
  const ofProject = readDotEnv(project);
  const path = textOption(options, 'envFile');
  const envFile = path === undefined ? undefined : readEnvFile(path, cwd);
  const python = textOption(options, 'python');
  if (python !== undefined && !/^3\.\d{1,2}$/.test(python))
    throw new CapstanError('INVALID_ARGUMENT', '--python: must be a version such as 3.11', { field: '--python' });
  return {
    lookUp: (name) => variables[name] ?? envFile?.values[name] ?? ofProject[name],
    envFile,
    exclude: (textOption(options, 'exclude') ?? '').split(',').flatMap((name) => (name.trim() === '' ? [] : [name.trim()])),
    bundleBasePackages: flagOption(options, 'bundleBasePackages'),
    keepStaging: flagOption(options, 'keepBuild'),
    refresh: flagOption(options, 'refresh'),
    python,
    cacheDir: cacheFolder({ variables, cwd }),
  };
}

/** Returns the folder of the tool's cache, absolute. */
export function cacheFolder({ variables, cwd }: Environment): string {
  const fromFile = readDotEnv(cwd);
  const own = (name: string): string | undefined => variables[name] ?? fromFile[name];
  return resolve(cwd, own('CAPSTAN_CACHE_DIR') ?? join(own('XDG_CACHE_HOME') ?? join(homedir(), '.cache'), 'capstan'));
}
