import { buildOptions, buildOptionSpecs } from '../command/build-options.ts';
import { projectFolder } from '../../compiler/build/notebook.ts';
import type { Command } from '../command/command.ts';
import { flagOption } from '../../terminal/options.ts';
import { sizeText } from '../../terminal/size-text.ts';

/** `capstan build [folder]`: builds without deploying. */
export const build: Command = {
  name: 'build',
  summary: 'Build a folder: discover its endpoints, install their packages, create the artifact.',
  arguments: [
    {
      name: 'folder',
      description: 'folder that declares endpoints or contains tool_manifest.json, or a notebook; default: the working folder',
      optional: true,
    },
  ],
  options: [{ flags: '--list', description: 'print what the artifact contains, largest first' }, ...buildOptionSpecs],
  json: true,
  examples: ['build', 'build hello --list', 'build hello --exclude torch,numpy'],
  async run({ args, options, env, terminal }) {
    const folder = await projectFolder(args[0], env.cwd, terminal);
    const [{ build: buildFolder }, { withFolder }] = await Promise.all([
      import('../../compiler/build/build.ts'),
      import('../../compiler/build/folder-lock.ts'),
    ]);
    terminal.step(`building ${folder}`);
    const { application, artifact } = await withFolder(folder, terminal, () =>
      buildFolder(folder, buildOptions(options, env, folder), terminal),
    );
    terminal.done(`${artifact.files} files, ${sizeText(artifact.size)}, sha256 ${artifact.digest.slice(0, 12)}`);
    const isListed = flagOption(options, 'list');
    if (flagOption(options, 'json')) {
      const { path, digest, size, files, contents } = artifact;
      const endpoints = application.endpoints.map(({ spec, functions }) => ({
        name: spec.name,
        functions: functions.map(({ name }) => name),
        packages: spec.packages,
        python: spec.python,
      }));
      terminal.data(JSON.stringify({ path, digest, size, files, endpoints, ...(isListed ? { contents } : {}) }, null, 2));
    } else if (isListed) {
      for (const { name, size } of artifact.contents) terminal.data(`${sizeText(size).padStart(10)}  ${name}`);
    }
    for (const { spec, functions } of application.endpoints)
      terminal.line(`  ${spec.name}: ${functions.map(({ name }) => name).join(', ') || spec.imageName}`);
    terminal.next(`capstan deploy${args[0] === undefined ? '' : ` ${args[0]}`}`);
  },
};
