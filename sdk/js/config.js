/** What the operator configures, compared with what a definition says of it. */

import { Failure, Problems } from './index.js';

const kindOf = (value) => {
  if (value === null || Array.isArray(value)) return value === null ? 'null' : 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
};

/** The configuration, compared with `fields`: the kind of each key, or a list of the kind and the default, undefined without one. */
export function read({ fields }, text) {
  let config;
  try {
    config = JSON.parse(text);
  } catch (error) {
    throw new Problems(['', `this is no JSON: ${error.message}`]);
  }
  if (kindOf(config) !== 'object') throw new Problems(['', `expected object, got ${kindOf(config)}`]);
  if (fields === undefined) return config;
  const known = Object.keys(fields);
  const problems = Object.keys(config)
    .filter((key) => !known.includes(key))
    .map((key) => [key, `is not known; known are ${known.join(', ')}`]);
  for (const key of known) {
    const [kind, ...rest] = [fields[key]].flat();
    const isThere = Object.hasOwn(config, key);
    const found = isThere ? kindOf(config[key]) : 'nothing';
    if (!isThere && Array.isArray(fields[key])) [config[key]] = rest.length ? rest : [undefined];
    else if (found !== kind && !(kind === 'number' && found === 'integer')) {
      problems.push([key, `expected ${kind}, got ${isThere ? JSON.stringify(config[key]) : 'nothing'}`]);
    }
  }
  if (problems.length > 0) throw new Problems(...problems);
  return config;
}

/** The JSON Schema: `schema` of the definition, or what its `fields` say. */
export function schemaOf({ schema, fields }) {
  if (schema !== undefined || fields === undefined) return JSON.stringify(schema ?? { type: 'object' });
  const kinds = Object.entries(fields).map(([key, field]) => [key, { type: [field].flat()[0] }]);
  const required = Object.keys(fields).filter((key) => !Array.isArray(fields[key]));
  return JSON.stringify({ type: 'object', properties: Object.fromEntries(kinds), required, additionalProperties: false });
}

/** What a configuration needs: natively, and in a component. The interface has no failure here. */
export function configured(definition, config) {
  try {
    return definition.configure(read(definition, config));
  } catch (error) {
    throw error instanceof Failure ? new Problems(['', error.message]) : error;
  }
}
