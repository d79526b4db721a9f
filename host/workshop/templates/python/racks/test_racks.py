"""The discoverer as an ordinary program, no WebAssembly and no cluster: `python3 -m unittest`."""

import unittest

from racks import Discoverer
from topoloom.testing import Cluster


class Racks(unittest.TestCase):
    def test_nodes_of_one_rack_are_one_group(self):
        cluster = Cluster().node("m1", {"rack": "a7"}).node("m2", {"rack": "a7"}).node("m3")
        answer = cluster.discover(Discoverer, {"label": "rack"})
        self.assertEqual(cluster.show(answer), "tier 1 rack | a7 | rack=a7 | m1 m2\n")
