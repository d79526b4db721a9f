"""The discoverer as an ordinary program, no WebAssembly, no cluster and no service: `python3 -m unittest`."""

import unittest

from listed import Discoverer
from topoloom import Failure
from topoloom.testing import Cluster, Reply

WHOLE = b'{"nodes": [{"name": "m1", "rack": "a7"}, {"name": "m2", "rack": "a7"}]}'


def shown(reply):
    """A round in which the service answers this."""
    cluster = Cluster().node("m1").node("m2").endpoint("list", lambda request: reply, "bearer")
    return cluster.show(cluster.discover(Discoverer, {}))


class Listed(unittest.TestCase):
    def test_names_become_racks(self):
        self.assertEqual(shown(Reply(200, WHOLE)), "tier 1 rack | a7 |  | m1 m2\n")

    def test_half_an_answer_is_none(self):
        for body in [WHOLE[:50], b"<html>log in</html>", b'{"nodes": [{"name": "m1"}]}', b"{}", b""]:
            with self.subTest(body), self.assertRaises(Failure) as raised:
                shown(Reply(200, body))
            self.assertEqual(raised.exception.kind, "upstream")
