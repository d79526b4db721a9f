"""The discoverers that the tests run: one over labels, one over a service with pages."""

import topoloom


@topoloom.plugin
class Discoverer:
    name, version, vendor, summary = "racks", "0.1.0", "Acme", "One group per rack label"
    fields = {"label": str, "tier": [int, 1]}

    def configure(self, config):
        return topoloom.requirements(labels=[config["label"]], triggers=[topoloom.on("columns")])

    def discover(self, config, input):
        topology = topoloom.Topology(state=b"seen")
        racks = topology.level(config["tier"], name=config["label"])
        for rack, rows in input.nodes.label(config["label"]).by_value():
            topology.group(racks, rack, rows=rows, labels={config["label"]: rack})
        topoloom.log("info", f"{input.nodes.rows} nodes after {input.state.decode() or 'nothing'}")
        return topoloom.unchanged(b"again") if input.state == b"seen" else topology


@topoloom.plugin
class Listed:
    name, version, vendor, summary = "listed", "0.1.0", "Acme", "One group per rack of a list"

    def configure(self, config):
        wish = topoloom.endpoint("list", "Reads which rack every node is in", paths=["/v1"], credentials=["bearer"])
        return topoloom.requirements(endpoints=[wish], triggers=[topoloom.on("timer", at_least=1000)])

    def discover(self, config, input):
        racks, odd, page = {}, 0, "/v1/nodes"
        while page:
            response = input.http.send("list", page, headers={"accept": "application/json"}).success()
            elements = topoloom.Elements(response, "nodes")
            for node in elements:
                if isinstance(node, dict) and "rack" in node:
                    racks.setdefault(node["rack"], []).append(node["name"])
                else:
                    odd += 1
            if not elements.found:
                raise topoloom.Failure("upstream", "there is no list of nodes in the answer")
            page = elements.envelope.get("next")
        topology = topoloom.Topology()
        level = topology.level(1, name="rack")
        for rack, names in sorted(racks.items()):
            topology.group(level, rack, rows=[row for row in input.nodes.find(names) if row is not None])
        if odd:
            topology.diagnose("unusable-record", f"{odd} records are left out")
        return topology
