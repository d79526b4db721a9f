/** The host's log, for `log` of a definition. Natively it is empty: `Cluster` stands in for it. */
export function write(level: string, message: string): void;
