import { CapstanError } from '../../lib/errors.ts';
import type { Command } from '../command/command.ts';
import { flagOption, textOption } from '../../terminal/options.ts';

const LANGUAGES = ['python', 'typescript'] as const;

/** `capstan init <name>`: creates a project with a worker file of each kind. */
export const init: Command = {
  name: 'init',
  summary: 'Create a project with a worker file for each kind of endpoint.',
  arguments: [{ name: 'project', description: 'name of the project and of its folder; not with --here', optional: true }],
  options: [
    { flags: '--language <language>', description: 'language of the project', choices: LANGUAGES, default: 'python' },
    { flags: '--here', description: 'declare the application of this folder instead' },
  ],
  examples: ['init hello', 'init --here', 'init hello --language typescript'],
  async run({ args, options, env, terminal }) {
    if (flagOption(options, 'here')) {
      if (args.length > 0)
        throw new CapstanError('INVALID_ARGUMENT', 'project: has no meaning with --here, which uses this folder', { field: 'project' });
      const { declareHere } = await import('../../compiler/init/declare-here.ts');
      const { file, found } = await declareHere(env.cwd);
      terminal.done(`Created ${file}, which declares ${found}`);
      terminal.next('capstan run');
      return;
    }
    const name = args[0] ?? '';
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name))
      throw new CapstanError('INVALID_ARGUMENT', 'project: must be 1 to 64 letters, digits, dots, dashes or underscores', {
        field: 'project',
      });
    const language = LANGUAGES.find((each) => each === textOption(options, 'language')) ?? 'python';
    const { createProject } = await import('../../compiler/init/create-project.ts');
    const files = await createProject(env.cwd, name, language);
    terminal.done(`Created ${name} with ${files.join(', ')}`);
    terminal.next(`cd ${name} && capstan run`);
  },
};
