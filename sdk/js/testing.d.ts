import type { AppliedGroup } from './host/applied.js';
import type { Answer, Credential, Definition, Discoverer, Method } from './index.js';

type Piece = string | Uint8Array | Error;

/** A request as an endpoint of a test gets it. */
export interface Request {
  endpoint: string;
  method: Method;
  pathAndQuery: string;
  headers: [string, string][];
  body?: Uint8Array;
}
/** The answer of an endpoint. A list of pieces arrives piece by piece; an error among them breaks it off. */
export interface Reply {
  status?: number;
  headers?: Record<string, string>;
  body?: Piece | Piece[];
}

/** A cluster in memory, which grants and judges as the host does. */
export class Cluster {
  /** When the next round starts, milliseconds since 1970. */
  time: number;
  /** The state of the last answer. */
  state: Uint8Array;
  /** The objects that the source wrote before. */
  objects: AppliedGroup[];
  /** The lines of the last round. */
  log: [level: string, message: string][];
  node(name: string, labels?: Record<string, string>, annotations?: Record<string, string>): this;
  endpoint(name: string, answer: (request: Request) => Reply, credential?: Credential): this;
  permit(permissions: { labels?: string[]; annotations?: string[]; endpoints?: string[] }): this;
  discover(plugin: Discoverer | Definition, config: unknown): Answer;
  round(plugin: Discoverer | Definition, config: unknown): Answer;
  judge(answer: Answer): string | undefined;
  show(answer: Answer): string;
}
