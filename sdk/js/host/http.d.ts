/** Requests to endpoints, for `http` of a definition. Natively it is empty: `Cluster` stands in for it. */
export function send(request: unknown): unknown;
/** The kind of credential that the host adds. */
export function credentialOf(endpoint: string): string;
