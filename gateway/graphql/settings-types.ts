/** Generates the fields of the schema's types Settings and EndpointSettings from the definition of the settings. */
import { READABLE_NAMES, settingOf, UPDATABLE_NAMES, type SettingName } from '../../lib/endpoint-settings.ts';
import type { SettingRule } from '../../lib/setting-rules.ts';

/** Fields of the type Settings. */
export const SETTINGS_OUTPUT = READABLE_NAMES.map((name) => {
  const { rule, default: otherwise } = settingOf(name);
  const isNullable = otherwise === null && rule.type !== 'rateLimits';
  return `${description(name)}  ${name}: ${outputType(rule.type)}${isNullable ? '' : '!'}`;
}).join('\n');

/** Fields of the input EndpointSettings. */
export const SETTINGS_INPUT = UPDATABLE_NAMES.map((name) => `${description(name)}  ${name}: ${inputType(settingOf(name).rule.type)}`).join(
  '\n',
);

function outputType(type: SettingRule['type']): string {
  return type === 'rateLimits' ? 'JSON' : inputType(type);
}

function inputType(type: SettingRule['type']): string {
  switch (type) {
    case 'integer':
      return 'Int';
    case 'text':
    case 'cpu':
    case 'choice':
      return 'String';
    case 'flag':
      return 'Boolean';
    case 'list':
      return '[String!]';
    case 'rateLimits':
      return '[RateLimit!]';
    case 'environment':
      return 'JSON';
  }
}

/** Links of the docs do not work in a schema. */
function description(name: SettingName): string {
  const text = settingOf(name).docs.replaceAll(/ \(\[[^\]]*\]\([^)]*\)\)/g, '');
  return `  ${JSON.stringify(`${text.charAt(0).toUpperCase()}${text.slice(1)}.`)}\n`;
}
