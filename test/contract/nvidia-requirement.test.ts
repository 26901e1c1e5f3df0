/** What images require of NVIDIA's driver (lib/nvidia-requirement.ts): the expressions of real images. */
import test from 'ava';

import { requirementsOf, unmetRequirement, type DriverFacts } from '../../lib/nvidia-requirement.ts';

const H100: DriverFacts = { cuda: '12.4', driver: '550.54.15', capability: '9.0', model: 'NVIDIA H100 80GB HBM3' };
const CUDA_12_8 =
  'cuda>=12.8 brand=unknown,driver>=470,driver<471 brand=grid,driver>=470,driver<471 brand=tesla,driver>=470,driver<471 brand=nvidia,driver>=470,driver<471 brand=unknown,driver>=535,driver<536 brand=tesla,driver>=535,driver<536 brand=nvidia,driver>=535,driver<536 brand=geforce,driver>=535,driver<536';

const cases: readonly (readonly [string, Partial<DriverFacts>, string | null])[] = [
  ['cuda>=12.4', {}, null],
  ['cuda>=12.4', { cuda: '12.10' }, null],
  ['cuda>=12.4', { cuda: '12.2' }, 'cuda>=12.4'],
  ['cuda>=12.4', { cuda: '' }, 'cuda>=12.4'],
  ['cuda>=9.0', { cuda: '13.0' }, null],
  [CUDA_12_8, {}, 'cuda>=12.8'],
  [CUDA_12_8, { cuda: '12.8', driver: '570.26' }, null],
  [CUDA_12_8, { cuda: '12.2', driver: '535.247.01' }, null],
  [CUDA_12_8, { cuda: '12.2', driver: '535.247.01', model: 'NVIDIA GeForce RTX 4090' }, null],
  [CUDA_12_8, { cuda: '11.4', driver: '470.82', model: 'NVIDIA GeForce RTX 3090' }, 'cuda>=12.8'],
  ['cuda>=8.0 arch>=7.5', { cuda: '7.5' }, null],
  ['arch>=9.1', {}, 'arch>=9.1'],
  ['driver>550', {}, null],
  ['driver!=550.54.15', {}, 'driver!=550.54.15'],
  ['cuda=12.4,driver<=551', {}, null],
  ['brand!=geforce', {}, null],
  ['', {}, null],
  ['  ', {}, null],
  ['something else', {}, null],
];

for (const [place, [expression, facts, expected]] of cases.entries())
  test(`${place}: ${expression.slice(0, 40)} with ${JSON.stringify(facts)}`, (t) => {
    t.is(unmetRequirement([expression], { ...H100, ...facts }), expected);
  });

test('all expressions must hold; NVIDIA_DISABLE_REQUIRE switches them off', (t) => {
  const environment = ['PATH=/bin', 'NVIDIA_REQUIRE_CUDA=cuda>=12.0', 'NVIDIA_REQUIRE_DRIVER=driver>=560', 'NVIDIA_VISIBLE_DEVICES=all'];
  t.deepEqual(requirementsOf(environment), ['cuda>=12.0', 'driver>=560']);
  t.is(unmetRequirement(requirementsOf(environment), H100), 'driver>=560');
  for (const value of ['1', 'true', 'True']) t.deepEqual(requirementsOf([...environment, `NVIDIA_DISABLE_REQUIRE=${value}`]), []);
  t.is(requirementsOf([...environment, 'NVIDIA_DISABLE_REQUIRE=0']).length, 2);
});
