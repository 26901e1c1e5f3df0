/** What of a notebook is exported, and what is refused with its cell and line. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { projectFolder } from '../../compiler/build/notebook.ts';
import { createTerminal } from '../../terminal/terminal.ts';
import { folderOf } from '../support/folder.ts';

const SDK = 'from capstan import Endpoint';

/** Exports a notebook of these cells; returns the module without its head. */
async function exported(t: ExecutionContext, ...cells: readonly string[]): Promise<string> {
  const sources = cells.map((source) => ({ cell_type: 'code', metadata: {}, source }));
  const folder = await folderOf(t, { 'one.ipynb': JSON.stringify({ nbformat: 4, cells: sources }) });
  const terminal = createTerminal({ out: { write: () => true }, err: { write: () => true }, colours: false });
  await projectFolder('one.ipynb', folder, terminal);
  const text = await readFile(join(folder, 'one.py'), 'utf8');
  return text.slice(text.indexOf('\n') + 1);
}

test('lines of strings and expressions that begin as magics do are kept; magics are not', async (t) => {
  const module = await exported(
    t,
    `${SDK}\n%matplotlib inline\n!pip install "it's \\\n  -q x"\nN = (100\n    % 7)`,
    'STYLE = """\n!important\n%s {\n"""\n%time 1',
    '@Endpoint(name="one")\ndef one():\n    text = """\n    %d of\n"""\n    !ls\n    return text % N + STYLE',
  );
  t.is(
    module,
    `# cell 1
${SDK}


N = (100
    % 7)


# cell 2
STYLE = """
!important
%s {
"""


# cell 3
@Endpoint(name="one")
def one():
    text = """
    %d of
"""

    return text % N + STYLE
`,
  );
});

test('a statement is exported without the others of its line, and once', async (t) => {
  const module = await exported(
    t,
    `import os; import sys; ${SDK}`,
    'É = "ä"; MODEL = "a"; train()',
    '# of the endpoint\n@Endpoint(\n    name="one",\n)\n# decorated\ndef one():\n    return os.name, sys.path, MODEL\none()',
  );
  t.is(
    module,
    `# cell 1
import os


import sys


${SDK}


# cell 2
MODEL = "a"


# cell 3
@Endpoint(
    name="one",
)
# decorated
def one():
    return os.name, sys.path, MODEL
`,
  );
});

test('what Python refuses after parsing is refused with its cell and line', async (t) => {
  const one = '@Endpoint(name="one")\ndef one():\n    return 1';
  await t.throwsAsync(exported(t, SDK, `${one}\n\ndef two():\n    nonlocal q\n    q = 1`), {
    code: 'INVALID_MANIFEST',
    message: /^one\.ipynb: cell 2, line 6: no binding for nonlocal 'q' found$/,
  });
  await t.throwsAsync(exported(t, SDK, `files = !ls\n${one}`), {
    code: 'INVALID_MANIFEST',
    message: /^one\.ipynb: cell 2, line 1: /,
  });
});
