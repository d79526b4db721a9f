"""Racks as a service lists them: {"nodes": [{"name": "m1", "rack": "a7"}, …]}, or the list alone."""

import topoloom


@topoloom.plugin
class Discoverer:
    name, version, vendor, summary = "listed", "0.1.0", "Acme", "One group per rack of a list"
    fields = {}  # There is nothing to configure: the operator sets the address of the service in the entry.

    def configure(self, config):
        # Below the URL of the operator; ask for no more than you need. Of the kinds of credential the best comes first.
        wish = topoloom.endpoint("list", "Reads which rack every node is in", paths=["/v1"], credentials=["bearer", "basic"])
        return topoloom.requirements(endpoints=[wish], triggers=[topoloom.on("timer"), topoloom.on("names")])

    def discover(self, config, input):
        elements = topoloom.Elements(input.http.send("list", "/v1/nodes").success(), "nodes")
        racks, every, odd = {}, 0, 0
        for node in elements:  # An error here means that the list is not whole: what was read before is not used.
            every += 1
            name, rack = (node.get("name"), node.get("rack")) if isinstance(node, dict) else (None, None)
            if isinstance(name, str) and isinstance(rack, str) and 0 < len(rack.encode()) <= 512:
                racks.setdefault(rack, set()).add(name)
            else:
                odd += 1
        if not elements.found or odd * 20 > every:
            raise topoloom.Failure("upstream", f"no list of nodes, or {odd} of {every} records that cannot be used")
        topology = topoloom.Topology()
        level = topology.level(1, name="rack")
        for rack, names in sorted(racks.items()):
            if rows := [row for row in input.nodes.find(sorted(names)) if row is not None]:
                topology.group(level, rack, rows=rows)
        if odd:
            topology.diagnose("unusable-record", f"{odd} of {every} records are left out")
        return topology
