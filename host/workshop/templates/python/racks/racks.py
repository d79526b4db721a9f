"""All nodes with the same value of one label are close together."""

import topoloom


@topoloom.plugin
class Discoverer:
    name, version, vendor, summary = "racks", "0.1.0", "Acme", "One group per rack label"
    fields = {"label": str}

    def configure(self, config):
        if not config["label"]:
            raise topoloom.Problems(("label", "must be the key of a node label, such as example.com/rack"))
        return topoloom.requirements(labels=[config["label"]], triggers=[topoloom.on("columns")])

    def discover(self, config, input):
        topology = topoloom.Topology()
        racks = topology.level(1, name=config["label"])
        for rack, rows in input.nodes.label(config["label"]).by_value():
            # A label may be there and have no value: such a node has no rack.
            if rack:
                topology.group(racks, rack, rows=rows, labels={config["label"]: rack})
        return topology
