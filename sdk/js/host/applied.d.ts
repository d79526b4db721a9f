import type { Members } from '../index.js';

/** An object that this source wrote before, as it is in the cluster now. */
export interface AppliedGroup {
  id?: string;
  name: string;
  tier: number;
  tierName?: string;
  labels: [string, string][];
  members: Members[];
}
/** All objects of this source, for `applied` of a definition. Natively it is empty: `Cluster` stands in for it. */
export function groups(): AppliedGroup[];
