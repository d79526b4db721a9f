// There is no host in a native test: `Cluster` stands in for it.
export {};
