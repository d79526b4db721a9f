import json
import unittest

import topoloom
from racks import Discoverer, Listed
from topoloom import Failure, Odd, http_error, pack, t, unpack
from topoloom.testing import Cluster, Reply


class Pieces:
    """A response whose body arrives byte by byte, or in any other pieces."""

    def __init__(self, body, size=1):
        self.body, self.size = body, size

    def read(self, most=0):
        piece, self.body = self.body[: self.size], self.body[self.size :]
        return piece


def racks():
    return Cluster().node("m1", {"rack": "a7"}).node("m2", {"rack": "a7"}).node("m3")


def topology(*groups, tier=1):
    answer = topoloom.Topology()
    answer.level(tier)
    for group in groups:
        answer.group(0, **group)
    return answer.answer()


class Texts(unittest.TestCase):
    def test_ends_are_bytes_of_utf_8(self):
        words = ["a", "", "zürich", "🙂", "b"]
        self.assertEqual(pack(words).ends, [1, 1, 8, 12, 13])
        self.assertEqual(unpack(pack(words)), words)
        self.assertEqual(unpack(pack(iter(["x"]))), ["x"])

    def test_a_column_groups_rows_by_value(self):
        column = topoloom.Column(["b", "none has it", "ä"], [3, 0, 1, 3])
        self.assertEqual(column.by_value(), [("b", [2]), ("ä", [0, 3])])
        self.assertEqual(column.values(), ["ä", None, "b", "ä"])


class Rounds(unittest.TestCase):
    def test_a_round_is_what_its_text_says(self):
        cluster = racks()
        answer = cluster.discover(Discoverer, {"label": "rack"})
        self.assertEqual(cluster.show(answer), "tier 1 rack | a7 | rack=a7 | m1 m2\n")
        self.assertEqual(cluster.log, [("info", "3 nodes after nothing")])

    def test_rounds_carry_state(self):
        cluster = racks()
        first, second = cluster.round(Discoverer, {"label": "rack"}), cluster.round(Discoverer, {"label": "rack"})
        self.assertIn("a7", cluster.show(first))
        self.assertEqual((cluster.show(second), cluster.state), ("unchanged\n", b"again"))
        self.assertEqual(cluster.log, [("info", "3 nodes after seen")])

    def test_a_column_that_was_not_asked_for_is_empty(self):
        class Curious(Discoverer.plugin):
            def discover(self, config, input):
                self_ = input.nodes
                assert self_.label("other").values() == [None] and self_.annotation("note").values() == [None]
                return topoloom.Topology()

        Cluster().node("m1", {"rack": "a", "other": "b"}, {"note": "c"}).discover(Curious, {"label": "rack"})

    def test_every_mistake_of_a_configuration_is_reported_at_once(self):
        def refused(config):
            with self.assertRaises(Failure) as raised:
                racks().discover(Discoverer, config)
            self.assertEqual(raised.exception.kind, "config")
            return raised.exception.message

        self.assertEqual(
            refused({"label": 7, "tier": True, "more": 1}),
            "more: is not known; known are label, tier; label: expected string, got 7; tier: expected integer, got true",
        )
        self.assertEqual(refused("{}"), "label: expected string, got nothing")
        self.assertEqual(refused("[]"), "expected object, got array")
        self.assertEqual(refused("null"), "expected object, got null")
        self.assertIn("this is no JSON", refused('{"label"'))
        self.assertIn("this is no JSON", refused("[" * 100_000))

    def test_the_schema_follows_from_the_fields(self):
        schema = json.loads(topoloom._schema(Discoverer.plugin))
        self.assertEqual(schema["properties"], {"label": {"type": "string"}, "tier": {"type": "integer"}})
        self.assertEqual((schema["required"], schema["additionalProperties"]), (["label"], False))
        self.assertEqual(topoloom._schema(Listed.plugin), '{"type": "object"}')

    def test_fields_and_their_schema_say_the_same(self):
        class Plain:
            fields = {"name": str, "count": [int], "size": [int, 7], "share": [float, 0.5]}

        absent = {"name": "a", "count": None, "size": 7, "share": 0.5}
        self.assertEqual(topoloom._read(Plain, '{"name": "a"}'), absent)
        self.assertEqual(json.loads(topoloom._schema(Plain))["required"], ["name"])
        whole = topoloom._read(Plain, '{"name": "a", "count": 2.0, "size": 1e2, "share": 1}')
        self.assertEqual(whole, {"name": "a", "count": 2, "size": 100, "share": 1})
        self.assertIs(type(whole["count"]), int)
        with self.assertRaisesRegex(topoloom.Problems, "^count: expected integer, got 1.5; size: expected integer, got null$"):
            topoloom._read(Plain, '{"name": "a", "count": 1.5, "size": null}')

    def test_grants_may_be_smaller_than_the_wishes(self):
        with self.assertRaises(Failure) as raised:
            racks().permit(labels=["acme.example/*"]).discover(Discoverer, {"label": "rack"})
        words = "the plugin requests what is not granted: the plugin reads the node label rack, which is not permitted"
        self.assertEqual((raised.exception.kind, raised.exception.message), ("denied", words))
        racks().permit(labels=["acme.example/*"]).discover(Discoverer, {"label": "acme.example/rack"})
        with self.assertRaisesRegex(Failure, "calls the endpoint list .Reads which rack every node is in., which is not permitted"):
            racks().permit(endpoints=[]).discover(Listed, {})


class Services(unittest.TestCase):
    def served(self, *replies, **more):
        replies, asked = list(replies), []

        def answer(request):
            asked.append((request.endpoint, request.method.name, request.path_and_query, request.headers))
            reply = replies.pop(0)
            if isinstance(reply, Exception):
                raise reply
            return reply

        cluster = racks().endpoint("list", answer, "bearer")
        shown = cluster.show(cluster.discover(more.get("plugin", Listed), {}))
        return shown, asked

    def failure(self, *replies):
        with self.assertRaises(Failure) as raised:
            self.served(*replies)
        return (raised.exception.kind, raised.exception.message, raised.exception.retry_after)

    def test_pages_are_read_to_the_last(self):
        first = {"nodes": [{"name": "m1", "rack": "a"}, {"name": "m2", "rack": "b"}, 7], "next": "/v1/nodes?page=2"}
        last = b'{"next": null, "nodes": [{"name": "m3", "rack": "a"}, {"name": nul}, {"name": "m9"}]}'
        shown, asked = self.served(Reply(200, json.dumps(first).encode()), Reply(200, [last[:40], last[40:]]))
        self.assertEqual(
            shown, "tier 1 rack | a |  | m1 m3\ntier 1 rack | b |  | m2\n! unusable-record | source | 3 records are left out\n"
        )
        accept = [("accept", "application/json")]
        self.assertEqual(asked, [("list", "GET", "/v1/nodes", accept), ("list", "GET", "/v1/nodes?page=2", accept)])

    def test_every_way_to_fail_has_its_word(self):
        self.assertEqual(self.failure(Reply(401)), ("unauthorized", "status 401", None))
        self.assertEqual(
            self.failure(Reply(302, headers={"Location": "/login"})), ("upstream", 'status 302: redirects to "/login"', None)
        )
        self.assertEqual(self.failure(Reply(304))[1], "status 304 to a request that did not ask for it")
        self.assertEqual(self.failure(Reply(503, headers={"retry-after": " 7 "})), ("upstream", "status 503", 7000))
        for odd in ["9" * 10, "9" * 5000, "+7", "-1", "1.5", "Fri, 31 Dec 1999 23:59:59 GMT"]:
            self.assertEqual(self.failure(Reply(503, headers={"retry-after": odd})), ("upstream", "status 503", None))
        self.assertEqual(self.failure(http_error("connect", "refused")), ("upstream", "no connection: refused", None))
        self.assertEqual(self.failure(http_error("denied", "no")), ("denied", "no", None))
        self.assertEqual(self.failure(Reply(200, b'{"nodes": [{"na'))[1], "the document ends in the middle")
        broken = Reply(200, [b'{"nodes": [', http_error("protocol", "reset")])
        self.assertEqual(self.failure(broken)[1], "protocol error: reset")
        self.assertEqual(self.failure(Reply(200, b"{}"))[1], "there is no list of nodes in the answer")

    def test_what_configure_did_not_ask_for_is_denied(self):
        def asks(*words, **more):
            class Asking(Listed.plugin):
                def discover(self, config, input):
                    assert input.http.credential_of("list") == "bearer"
                    input.http.send(*words, **more)

            with self.assertRaises(Failure) as raised:
                self.served(plugin=Asking)
            return raised.exception.kind, raised.exception.message

        self.assertEqual(asks("other"), ("denied", 'the endpoint "other" is not granted'))
        self.assertEqual(asks("list", "/v1", method="post"), ("denied", "POST is not granted on the endpoint list"))
        self.assertEqual(asks("list", "/v10"), ("denied", 'the path "/v10" of the endpoint list is not granted, only /v1'))
        self.assertEqual(asks("list", "/v1", body=b"x"), ("denied", "GET has no body"))
        up = 'the path "/v1/../v2" is refused: it has a `.` or `..` segment'
        self.assertEqual(asks("list", "/v1/../v2"), ("denied", up))
        kind, words = asks("list", "/v1", headers={"Authorization": "Bearer x"})
        self.assertEqual(kind, "denied")
        self.assertRegex(words, '^the header "Authorization" belongs to the host; a plugin may set accept, accept-charset, ')

    def test_what_the_host_refuses_of_requirements_is_refused_in_its_words(self):
        def refused(words, **wanted):
            class Wishing(Listed.plugin):
                def configure(self, config):
                    return topoloom.requirements(**wanted)

            with self.assertRaises(Failure) as raised:
                racks().discover(Wishing, {})
            self.assertEqual((raised.exception.kind, raised.exception.message), ("internal", words))

        limit = "the plugin exceeded a limit: "
        refused(f"{limit}it has 65 required node labels and may have 64", labels=["a"] * 65)
        refused('the answer is not valid: it asks for the node label or annotation "": must not be empty', annotations=[""])
        refused(f"{limit}it has 17 endpoints and may have 16", endpoints=[topoloom.endpoint("a", "")] * 17)
        long = topoloom.endpoint("a", "", paths=["/" + "x" * 4096])
        refused(f"{limit}a text of an endpoint is 4097 bytes long, at most 4096 are read", endpoints=[long])


class Lists(unittest.TestCase):
    def read(self, text, size=1):
        elements = topoloom.Elements(Pieces(text.encode(), size), "data")
        return list(elements), elements

    def test_both_forms_of_a_list_are_read_in_any_pieces(self):
        text = ' [ {"a":[1,{"b":"]}"}]} , "x\\"ü", 12 ,-1.5e3, null] '
        whole = [{"a": [1, {"b": "]}"}]}, 'x"ü', 12, -1500.0, None]
        for size in range(1, len(text) + 3):
            self.assertEqual(self.read(text, size)[0], whole)
            values, elements = self.read('{"x":{"data":[7]},"y":"data","data" : [1,[2]],"z":1}', size)
            self.assertEqual((values, elements.found), ([1, [2]], True))
            self.assertEqual(elements.envelope, {"x": {"data": [7]}, "y": "data", "data": None, "z": 1})
        self.assertEqual(self.read("[]")[0], [])

    def test_an_odd_element_costs_that_element(self):
        text = '[1, {"a": nope, "b": ["]", {}]}, oops, "a\tb", {"c": 3}]'
        for size in range(1, len(text) + 2):
            values = self.read(text, size)[0]
            self.assertEqual(values[:1] + values[-1:], [1, {"c": 3}])
            self.assertEqual([value.text for value in values[1:-1]], ['{"a": nope, "b": ["]", {}]}', "oops", '"a\tb"'])
            self.assertTrue(all(isinstance(value, Odd) for value in values[1:-1]))

    def test_what_is_no_json_text_or_number_is_odd(self):
        odd = ["NaN", "-Infinity", "1E400", '{"a":1e999}', '"\\ud800"', '{"a":["\\uDC00\\uD83D"]}', '{"\\udfff":1}', "12abc", "}x"]
        text = "[" + ",".join([*odd, '"\\ud83d\\ude42\\u0041"', "1e300", "7"]) + "]"
        for size in range(1, len(text) + 2):
            values = self.read(text, size)[0]
            self.assertEqual([value.text for value in values[: len(odd)]], odd)
            self.assertEqual(values[len(odd) :], ["🙂A", 1e300, 7])
            # As in the crate: what is missing between two elements is none of them.
            self.assertEqual(self.read('[{"a":1}{"a":2} [3]"x" 4]', size)[0], [{"a": 1}, {"a": 2}, [3], "x", 4])

    def test_each_piece_is_read_once(self):
        # Small pieces of one large element: it is tried once, and parsed once when it is whole.
        element = json.dumps([{"name": f'm{at}"\\', "x": [at]} for at in range(20_000)])
        elements = topoloom.Elements(Pieces(f"[{element}]".encode(), 1024), "data")
        parse, tried = elements._JSON, []

        class Json:
            def raw_decode(self, text, at):
                tried.append(len(text))
                return parse.raw_decode(text, at)

            def decode(self, text):
                tried.append(len(text))
                return parse.decode(text)

        elements._JSON = Json()
        self.assertEqual(list(elements), [json.loads(element)])
        self.assertLess(sum(tried), 2 * len(element))

    def test_a_broken_document_is_no_list(self):
        for text, words in [
            ("[1,2", "ends in the middle"),
            ('[{"a":1', "ends in the middle"),
            ("", "ends in the middle"),
            ('{"data":[1]', "ends in the middle"),
            ('["ab', "ends in the middle"),
            ("<html>", "neither a JSON list nor an object"),
            ("[] []", "something follows"),
            ('{"data" 1}', "is no JSON"),
        ]:
            for size in (1, 3, 100):
                with self.assertRaisesRegex(Failure, words):
                    self.read(text, size)
        with self.assertRaisesRegex(Failure, "no UTF-8"):
            list(topoloom.Elements(Pieces(b'["\xff"]', 9), "data"))
        with self.assertRaisesRegex(Failure, "larger than 4 MiB"):
            list(topoloom.Elements(Pieces(b'["' + b"a" * (6 << 20), 1 << 20), "data"))


class Judged(unittest.TestCase):
    def refused(self, answer, wanted, **more):
        cluster = Cluster().node("n0").node("n1").node("n2")
        cluster.state = more.get("state", b"")
        self.assertEqual(cluster.judge(answer), wanted)

    def test_what_the_host_refuses_is_refused_in_its_words(self):
        refused = self.refused
        refused(topology({"id": "a", "rows": [0]}), None)
        refused(topology({"id": "a", "rows": [0]}, tier=99), 'the topology is not valid: group "a": tier 99 is not between 1 and 16')
        refused(
            topology({"id": "a", "rows": [0]}, {"id": "a", "rows": []}),
            'the topology is not valid: group "a": the id is used by an earlier group of this answer; group "a": the group has no members',
        )
        refused(topology({"id": "a", "rows": [0, 9]}), "the answer is not valid: group 0 has node row 9 and there are 3 nodes")
        refused(topology({"id": "a", "groups": [4]}), "the answer is not valid: group 0 has group 4 and there are 1 groups")
        refused(topology({"id": "a", "rows": [1, 1]}), 'the topology is not valid: group "a": row 1 is a member twice')
        refused(topoloom.unchanged(b""), "the answer is not valid: it answers `unchanged`, but has no state of an earlier answer")
        refused(topoloom.unchanged(b""), None, state=b"x")
        refused(topology({"id": "x" * 5000, "rows": [0]}), "the plugin exceeded a limit: a group id is 5000 bytes long, at most 4096 are read")
        refused(
            topology({"id": 'ä"\n' * 40, "rows": [0], "labels": {"a b": "c"}}),
            'the topology is not valid: group "' + 'ä\\"\\n' * 26 + 'ä\\""…: label key "a b": must consist of letters, digits, \'-\', '
            "'_' and '.', and begin and end with a letter or digit",
        )

    def test_what_is_no_row_is_refused_where_it_is_said(self):
        answer = topoloom.Topology()
        level = answer.level(1)
        for wrong in (None, -1, 0.0, 1 << 32, "1", True):
            for act in (
                lambda: answer.group(level, "a7", rows=[0, wrong]),
                lambda: answer.group(level, "a7", groups=[wrong]),
                lambda: answer.group(wrong, "a7", rows=[0]),
                lambda: answer.diagnose("odd", "", rows=[wrong]),
            ):
                with self.assertRaisesRegex(TypeError, "(a7|odd): .* is no integer from 0 to 4294967295; leave out"):
                    act()
        with self.assertRaisesRegex(TypeError, "group of odd: -1 is no integer"):
            answer.diagnose("odd", "", group=-1)
        self.assertEqual(answer.group(level, "a7", rows=[(1 << 32) - 1]), 0)

    def test_a_refused_answer_is_a_failure_of_the_round(self):
        with self.assertRaises(Failure) as raised:
            racks().discover(Discoverer, {"label": "rack", "tier": 17})
        self.assertEqual(raised.exception.kind, "internal")
        self.assertEqual(raised.exception.message, 'the topology is not valid: group "a7": tier 17 is not between 1 and 16')


class Component(unittest.TestCase):
    """The exported functions, with the records that stand in for those of the bindings."""

    def test_an_exception_is_in_the_log_before_it_ends_the_call(self):
        topoloom._lines.clear()
        with self.assertRaises(topoloom.Err) as raised:
            Discoverer().configure('{"label": 7}')
        self.assertEqual(raised.exception.args[0][0].path, "label")

        @topoloom.plugin
        class Broken:
            def configure(self, config):
                return config["absent"]

        with self.assertRaises(topoloom.Err) as raised:
            Broken().configure("{}")
        [(level, words)] = topoloom._lines
        self.assertEqual(level, "error")
        self.assertRegex(words, r"^KeyError: 'absent', at test_topoloom.py:[0-9]+ in configure < __init__.py:")
        self.assertEqual(raised.exception.args[0][0].message, words)

    def test_an_exception_of_the_other_call_is_one_of_this_call(self):
        class Wrong(Discoverer.plugin):
            def configure(self, config):
                raise Failure("config", "no such label")

            def discover(self, config, input):
                raise topoloom.Problems(("label", "no such label"))

        with self.assertRaises(topoloom.Err) as raised:
            topoloom.plugin(Wrong)().configure('{"label": "x"}')
        self.assertEqual([(it.path, it.message) for it in raised.exception.args[0]], [("", "no such label")])
        with self.assertRaisesRegex(Failure, "^no such label$") as failed:
            racks().discover(Wrong, {"label": "x"})
        self.assertEqual(failed.exception.kind, "config")
        Wrong.configure = Discoverer.plugin.configure
        with self.assertRaisesRegex(Failure, "^label: no such label$") as failed:
            racks().discover(Wrong, {"label": "x"})
        self.assertEqual(failed.exception.kind, "config")

    def test_a_component_without_http_says_what_it_lacks(self):
        for ask in (lambda http: http.send("list"), lambda http: http.credential_of("list")):
            with self.assertRaisesRegex(TypeError, "^the plugin has no `http`; add it to `uses` of topoloom-plugin.yaml$"):
                ask(topoloom.Http(None))

    def test_the_log_has_four_levels(self):
        for level in ("warning", "WARN", ""):
            with self.assertRaisesRegex(ValueError, f"the log has no level {level!r}; use one of debug, info, warn, error"):
                topoloom.log(level, "fire")

    def test_what_a_class_says_of_itself_is_its_description(self):
        said = Discoverer().describe()
        self.assertEqual((said.name, said.version, said.vendor), ("racks", "0.1.0", "Acme"))
        wanted = Discoverer().configure('{"label": "rack"}')
        self.assertEqual((wanted.node_labels, wanted.triggers[0].value.at_least), (["rack"], 0))
        self.assertIs(Listed().configure("{}").endpoints[0].credentials[0], t.Credential.BEARER)


if __name__ == "__main__":
    unittest.main()
