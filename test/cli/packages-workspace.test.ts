/** Members of a workspace in an artifact, by the real uv and pip: never the packages of an index that have their names. */
import { execFileSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import test from 'ava';
import { extract } from 'tar';

import { packageWorld, wheel, withoutPip, withoutUv } from './fakes/package-world.ts';

const BACKEND = `
import os, re, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with open("pyproject.toml") as file:
        text = file.read()
    name, version = re.search('name = "(.*)"', text)[1], re.search('version = "(.*)"', text)[1]
    needs = re.findall('"(.*?)"', re.search(r"dependencies = \\[(.*)\\]", text)[1])
    info = "%s-%s.dist-info/" % (name, version)
    file = "%s-%s-py3-none-any.whl" % (name, version)
    with zipfile.ZipFile(os.path.join(wheel_directory, file), "w") as made:
        made.writestr(name + ".py", "version = %r\\n" % version)
        made.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: %s\\nVersion: %s\\n" % (name, version) + "".join("Requires-Dist: %s\\n" % each for each in needs))
        made.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        made.writestr(info + "RECORD", "%s.py,,\\n%sMETADATA,,\\n%sWHEEL,,\\n%sRECORD,,\\n" % (name, info, info, info))
    return file

build_editable = build_wheel
`;

const member = (name: string, needs: string): string => `[project]
name = "${name}"
version = "9.9.9"
dependencies = [${needs}]
${needs === '' ? '' : `[tool.uv.sources]\n${needs.replaceAll('"', '')} = { workspace = true }\n`}[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
`;

for (const installer of ['uv', 'pip'] as const) {
  const why = installer === 'uv' ? withoutUv : withoutPip;
  (why === null ? test : test.skip)(
    `${installer}: a member and what it names come from the workspace${why === null ? '' : ` (${why})`}`,
    async (t) => {
      const { folder, build, environment } = await packageWorld(
        t,
        {
          'one.py': 'from capstan import Endpoint\n\n@Endpoint(name="one", dependencies=["six"])\ndef one():\n    return 1\n',
          '.toolignore': 'wheels/\nmembers/\n',
          'pyproject.toml':
            '[project]\nname = "app"\nversion = "1"\ndependencies = ["six"]\n[tool.uv.sources]\nsix = { workspace = true }\n[tool.uv.workspace]\nmembers = ["members/*"]\n',
          'members/six/pyproject.toml': member('six', '"attrs"'),
          'members/six/backend.py': BACKEND,
          'members/attrs/pyproject.toml': member('attrs', ''),
          'members/attrs/backend.py': BACKEND,
        },
        { installer },
      );
      for (const name of ['six', 'attrs']) wheel(folder, name, { version: '10.0' });
      const built = await build();
      t.is(built.code, 0, built.stderr);
      const place = join(folder, 'wheels/unpacked');
      await mkdir(place);
      await extract({ file: join(folder, '.tool/artifact.tar.gz'), cwd: place });
      const versions = (path: string): string =>
        execFileSync('python3', ['-c', 'import attrs, six; print(six.version, attrs.version)'], {
          cwd: '/',
          encoding: 'utf8',
          env: { PATH: process.env['PATH'], PYTHONPATH: path, PYTHONDONTWRITEBYTECODE: '1' },
        }).trim();
      t.is(versions(join(place, 'python_packages')), '9.9.9 9.9.9');
      t.is(versions((await environment())?.path ?? ''), '9.9.9 9.9.9', 'and under development');
    },
  );
}
