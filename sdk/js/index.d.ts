import type { AppliedGroup } from './host/applied.js';

/** Why a round has no answer. The topology in force stays in force. */
export class Failure extends Error {
  constructor(kind: FailureKind, message: string, retryAfter?: number, cause?: HttpCause);
  readonly kind: FailureKind;
  /** How long the other side asked to wait, in milliseconds. */
  readonly retryAfter?: number;
  /** Why a request had no answer. */
  readonly cause?: HttpCause;
}
export type FailureKind = 'config' | 'denied' | 'unauthorized' | 'upstream' | 'internal';
export type HttpCause = 'denied' | 'connect' | 'timeout' | 'too-large' | 'protocol';

/** What is wrong with a configuration: pairs of path and message, all of them at once. */
export class Problems extends Error {
  constructor(...problems: [path: string, message: string][]);
}

/** Many strings as one text; the ends count bytes of UTF-8. */
export interface Packed {
  text: string;
  ends: Uint32Array;
}
export function size(text: string): number;
export function encode(text: string): Uint8Array;
export function decode(bytes: Uint8Array): string;
export function pack(texts: Iterable<string>): Packed;
export function unpack(packed: Packed): string[];

/** One label or annotation key over all nodes. */
export class Column {
  constructor(texts: string[], codes: ArrayLike<number>);
  readonly texts: string[];
  /** Code 0: the node lacks the key; n: text n-1. */
  readonly codes: ArrayLike<number>;
  values(): (string | undefined)[];
  byValue(): [value: string, rows: number[]][];
}

/** The nodes of the cluster: rows 0 to `rows`-1, valid for this call only. */
export interface Nodes {
  readonly rows: number;
  label(key: string): Column;
  annotation(key: string): Column;
  names(): string[];
  find(names: Iterable<string>): (number | undefined)[];
}

/** The members of one group, as the interface has them. */
export type Members =
  | { tag: 'rows' | 'groups'; val: ArrayLike<number> }
  | { tag: 'names'; val: Packed }
  | { tag: 'selector'; val: { matchLabels: [string, string][]; matchExpressions: Requirement[] } };
export interface Requirement {
  key: string;
  operator: 'in' | 'not-in' | 'exists' | 'does-not-exist';
  values: string[];
}

/** One of the four kinds of members, and what else a group has. */
export interface GroupOptions {
  rows?: Iterable<number>;
  groups?: Iterable<number>;
  names?: Iterable<string>;
  selector?: Record<string, string>;
  labels?: Record<string, string>;
  description?: string;
  fixedName?: string;
}

/** The answer under construction, groups lowest tier first. */
export class Topology {
  constructor(options?: { additionsOnly?: boolean; state?: Uint8Array });
  state: Uint8Array;
  level(tier: number, options?: { name?: string; kind?: string }): number;
  group(level: number, id: string, options: GroupOptions): number;
  diagnose(code: string, detail: string, about?: { rows?: Iterable<number>; group?: number; name?: string }): void;
  answer(): Answer;
}

/** An answer of the interface. */
export interface Answer {
  outcome: { tag: string; val?: unknown };
  state: Uint8Array;
}
export function unchanged(state: Uint8Array): Answer;

/** What a configuration needs. */
export interface Requirements {
  nodeLabels: string[];
  nodeAnnotations: string[];
  endpoints: Endpoint[];
  triggers: Trigger[];
}
export interface Trigger {
  tag: 'columns' | 'names' | 'timer';
  val: { atLeast: number };
}
export type Method = 'get' | 'head' | 'post' | 'put' | 'patch' | 'delete';
export type Credential = 'none' | 'basic' | 'token' | 'bearer' | 'mtls';
export interface Endpoint {
  name: string;
  purpose: string;
  location: { tag: string; val?: unknown };
  methods: Method[];
  paths: string[];
  tls: { caBundle?: string; serverName?: string; insecureSkipVerify: boolean };
  credentials: Credential[];
}
export function on(what: Trigger['tag'], atLeast?: number): Trigger;
export function endpoint(
  name: string,
  purpose: string,
  options?: { paths?: string[]; methods?: Method[]; credentials?: Credential[] },
): Endpoint;
export function requirements(wishes: {
  labels?: string[];
  annotations?: string[];
  endpoints?: Endpoint[];
  triggers?: Trigger[];
}): Requirements;

export function httpError(cause: HttpCause, reason: string): Failure;

/** An answer whose body is still on its way. */
export interface Response {
  readonly status: number;
  /** By lower-case names. */
  readonly headers: Record<string, string>;
  success(): Response;
  read(most?: number): Uint8Array;
  close(): void;
}

/** The endpoints that the operator granted, by name. */
export interface Http {
  send(endpoint: string, path?: string, options?: { method?: Method; headers?: Record<string, string>; body?: Uint8Array }): Response;
  credentialOf(endpoint: string): Credential;
}

/** An element of a list that is no JSON, or has half a character or a number beyond all. */
export class Odd {
  constructor(text: string);
  readonly text: string;
}

/** The elements of one array of a body, parsed as they arrive. */
export class Elements implements Iterable<unknown> {
  constructor(response: { read(): Uint8Array }, key: string);
  readonly envelope: Record<string, unknown>;
  readonly found: boolean;
  [Symbol.iterator](): Iterator<unknown>;
}

/** The input of one round. */
export interface Input {
  nodes: Nodes;
  http: Http;
  applied?: { groups(): AppliedGroup[] };
  log(level: 'debug' | 'info' | 'warn' | 'error', message: string): void;
  /** When the round started, milliseconds since 1970. There is no other clock. */
  time: number;
  /** The state of the last answer; empty after a restart. */
  state: Uint8Array;
}

export type Kind = 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object';

/** A discoverer: three pure functions and what it says of itself. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export interface Definition<Config = any> {
  name: string;
  version: string;
  vendor?: string;
  summary?: string;
  /** The keys of the configuration: the kind of each, or a list of the kind and the default. A list without one is optional. */
  fields?: Record<string, Kind | [Kind] | [Kind, unknown]>;
  /** The JSON Schema, in place of the one that follows from `fields`. */
  schema?: unknown;
  http?: unknown;
  applied?: unknown;
  log?: unknown;
  configure(config: Config): Requirements;
  discover(config: Config, input: Input): Topology | Answer;
}

/** The JSON Schema of a configuration, as text: `schema` of the definition, or what its `fields` say. */
export function schemaOf(definition: Pick<Definition, 'schema' | 'fields'>): string;

/** What a component exports. */
export interface Discoverer {
  definition: Definition;
  describe(): { name: string; version: string; vendor: string; summary: string; configSchema: string };
  configure(config: string): Requirements;
  discover(config: string, nodes: unknown, round: { time: bigint | number; state: Uint8Array }): Answer;
}
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export function plugin<Config = any>(definition: Definition<Config>): Discoverer;
