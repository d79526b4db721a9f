"""Natively, without WebAssembly and without a cluster: `python3 -m unittest`."""

import json
import unittest

from topoloom import Failure
from topoloom.testing import Cluster, Reply

from cmdb import Discoverer

FIRST = {"items": [{"name": "m1", "rack": "a7", "room": "r1"}, {"name": "m2", "rack": "b1", "room": "r1"}], "next": "p 2"}
SECOND = {"items": [{"name": "m3", "rack": "a7", "room": "r1"}, {"name": "x", "rack": "a7", "room": "r1"}], "next": None}


def body(value):
    return json.dumps(value).encode()


def round(answer):
    cluster = Cluster().endpoint("cmdb", lambda request: answer(request.path_and_query), "bearer")
    for name in ("m1", "m2", "m3", "m4"):
        cluster.node(name)
    return cluster.show(cluster.discover(Discoverer, {"pageSize": 2}))


class Cmdb(unittest.TestCase):
    def test_pages_become_racks_and_rooms(self):
        pages = {"/devices?limit=2": FIRST, "/devices?limit=2&cursor=p%202": SECOND}
        self.assertEqual(
            round(lambda path: Reply(200, body(pages[path]))),
            "tier 1 rack | r1/a7 |  | m1 m3 | said rack a7 in room r1\n"
            "tier 1 rack | r1/b1 |  | m2 | said rack b1 in room r1\n"
            "tier 2 room | r1 |  | [r1/a7 r1/b1]\n"
            "! not-in-cmdb | m4 | no device has the name of this node\n",
        )

    def test_half_of_the_pages_is_no_answer(self):
        for second in (Reply(500), Reply(200, b"<html>log in</html>"), Reply(200, body(SECOND)[:90])):
            with self.assertRaises(Failure) as raised:
                round(lambda path: second if "cursor" in path else Reply(200, body(FIRST)))
            self.assertEqual(raised.exception.kind, "upstream")

    def test_devices_that_are_no_nodes_are_of_no_interest_however_many_are_listed_twice(self):
        items = [{"name": f"x{at}", "rack": "a7", "room": "r1"} for at in range(10_001)] + FIRST["items"]
        again = [{**device, "rack": "b1"} for device in items]
        shown = round(lambda path: Reply(200, body({"items": items + again})))
        twice = [line for line in shown.splitlines() if "listed-twice" in line]
        self.assertEqual(twice, ["! listed-twice | m1 | it is listed twice, with different places; the first one counts"])

    def test_what_is_no_cursor_is_not_the_end(self):
        for odd in (0, False, [], {}, 7):
            with self.assertRaises(Failure) as raised:
                round(lambda path: Reply(200, body({**FIRST, "next": odd})))
            self.assertEqual(raised.exception.message, "the page has no usable `next`")
        for end in (None, ""):
            shown = round(lambda path: Reply(200, body({**FIRST, "next": end})))
            self.assertTrue(shown.startswith("tier 1 rack | r1/a7 |  | m1 "), shown)


if __name__ == "__main__":
    unittest.main()
