"""A cluster in memory: the first test of a discoverer needs neither WebAssembly nor Kubernetes.

It grants and judges as the host does: a column that `configure` did not ask for is empty, an endpoint that it did not ask for is
refused, and an answer that the host would refuse is a `Failure` with the words of the host.

    cluster = Cluster().node("m1", {"rack": "a7"}).node("m2", {"rack": "a7"}).node("m3")
    answer = cluster.discover(Discoverer, {"label": "rack"})
    assert cluster.show(answer) == "tier 1 rack | a7 | rack=a7 | m1 m2\\n"
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, make_dataclass
from types import SimpleNamespace
from typing import Any, Callable, Iterable, Iterator, Mapping

import topoloom
from topoloom import Failure, Problems, d, http_error, pack, rules, t, unpack
from topoloom.rules import invalid, malformed, quoted

_Request = make_dataclass("Request", ["endpoint", "method", "path_and_query", "headers", "body"])


@dataclass
class Reply:
    """The answer of an endpoint. A body in pieces arrives piece by piece; an exception among them breaks it off."""

    status: int
    body: bytes | Iterable[bytes | Exception] = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Cluster:
    """Nodes, endpoints, grants, time and state of a round. Each method that adds returns the cluster."""

    def __init__(self) -> None:
        self.nodes: list[tuple[str, Mapping[str, str], Mapping[str, str]]] = []
        self.endpoints: dict[str, tuple[Callable[[Any], Reply], str]] = {}
        self.permitted: dict[str, Iterable[str] | None] = {}
        self.objects: list[Any] = []
        self.time, self.state, self.log = 0, b"", []

    def node(self, name: str, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None) -> Cluster:
        """Adds a node."""
        self.nodes.append((name, labels or {}, annotations or {}))
        return self

    def endpoint(self, name: str, answer: Callable[[Any], Reply], credential: str = "none") -> Cluster:
        """Answers the requests to an endpoint; `answer` may raise `topoloom.http_error`."""
        self.endpoints[name] = (answer, credential)
        return self

    def permit(self, **permissions: Iterable[str]) -> Cluster:
        """What the operator grants of `labels`, `annotations` (keys, or `acme.example/*`) and `endpoints`; without this, all."""
        self.permitted.update(permissions)
        return self

    def discover(self, plugin: Any, config: Mapping[str, Any] | str) -> Any:
        """One round as the host would run it. Problems of the configuration and a refused answer are failures, too."""
        cls, text = getattr(plugin, "plugin", plugin), config if isinstance(config, str) else json.dumps(config)
        topoloom._lines.clear()
        try:
            wanted = topoloom._configure(cls, text)
        except Problems as problems:
            raise Failure("config", str(problems)) from None
        if refused := rules.wishes(wanted):
            raise Failure("internal", refused)
        denied = "; ".join(self._denied(wanted))
        if denied:
            raise Failure("denied", f"the plugin requests what is not granted: {denied}")
        round, applied = SimpleNamespace(time=self.time, state=self.state), SimpleNamespace(groups=lambda: self.objects)
        try:
            answer = topoloom._discover(cls, text, self._snapshot(wanted), round, self._http(wanted), applied)
        finally:
            self.log = topoloom._lines[:200]
        refused = self.judge(answer)
        if refused:
            raise Failure("internal", refused)
        return answer

    def round(self, plugin: Any, config: Mapping[str, Any] | str) -> Any:
        """The same, and the state of the answer is that of the next round. `state = b""` is a restart of the host."""
        answer = self.discover(plugin, config)
        self.state = answer.state
        return answer

    def judge(self, answer: Any) -> str | None:
        """What the host says to an answer: None, or the sentence with which it refuses it."""
        names = [name for name, *_ in self.nodes]
        return malformed(answer, len(names), bool(self.state)) or invalid(answer, names)

    def show(self, answer: Any) -> str:
        """An answer as text, one line per group and diagnostic, sorted: for tests to compare."""
        if isinstance(answer.outcome, d.Outcome_Unchanged):
            return "unchanged\n"
        said, names = answer.outcome.value, [name for name, *_ in self.nodes]

        def members(group: Any) -> str:
            value = group.members.value
            if isinstance(group.members, t.Members_Rows):
                return " ".join(sorted(names[row] for row in value))
            if isinstance(group.members, t.Members_Groups):
                return f"[{' '.join(sorted(said.groups[child].id for child in value))}]"
            if isinstance(group.members, t.Members_Names):
                return f"names {' '.join(unpack(value))}"
            labels = ", ".join(f"({quoted(key)}, {quoted(value)})" for key, value in sorted(value.match_labels))
            needs = ", ".join(map(requirement, value.match_expressions))
            return f"LabelSelector {{ match-labels: [{labels}], match-expressions: [{needs}] }}"

        def requirement(it: Any) -> str:
            word, values = it.operator.name.title().replace("_", ""), ", ".join(map(quoted, it.values))
            return f"LabelRequirement {{ key: {quoted(it.key)}, operator: LabelOperator::{word}, values: [{values}] }}"

        def shown(group: Any) -> str:
            level, labels = said.levels[group.level], " ".join(sorted(f"{key}={value}" for key, value in group.labels))
            more = f" | name {group.fixed_name}" if group.fixed_name is not None else ""
            more += f" | said {group.description}" if group.description is not None else ""
            name = "-" if level.tier_name is None else level.tier_name
            return f"tier {level.tier} {name} | {group.id} | {labels} | {members(group)}{more}"

        def about(subject: Any) -> str:
            if isinstance(subject, t.Subject_Rows):
                return " ".join(sorted(names[row] for row in subject.value))
            if isinstance(subject, t.Subject_Group):
                return said.groups[subject.value].id
            return "source" if isinstance(subject, t.Subject_Source) else subject.value

        lines = ["additions only"] if said.coverage is t.Coverage.ADDITIONS_ONLY else []
        lines += sorted(map(shown, said.groups))
        lines += sorted(f"! {it.code} | {about(it.subject)} | {it.detail}" for it in said.diagnostics)
        return "".join(line + "\n" for line in lines)

    def _denied(self, wanted: Any) -> Iterator[str]:
        asked = {"labels": wanted.node_labels, "annotations": wanted.node_annotations}
        for kind, word in (("labels", "label"), ("annotations", "annotation")):
            for key in asked[kind]:
                covers = [key == it or (it.endswith("/*") and key.startswith(it[:-1])) for it in self.permitted.get(kind, [key])]
                if not any(covers):
                    yield f"the plugin reads the node {word} {key}, which is not permitted"
        for it in wanted.endpoints:
            if it.name not in self.permitted.get("endpoints", [it.name]):
                yield f"the plugin calls the endpoint {it.name} ({it.purpose}), which is not permitted"

    def _snapshot(self, wanted: Any) -> Any:
        def column(at: int, keys: list[str], key: str) -> Any:
            codes: dict[str | None, int] = {None: 0}
            values = [node[at].get(key) if key in keys else None for node in self.nodes]  # type: ignore[union-attr]
            column = [codes.setdefault(value, len(codes)) for value in values]
            return SimpleNamespace(dictionary=pack(value for value in codes if value is not None), codes=column)

        names = [name for name, *_ in self.nodes]
        known = {name: row for row, name in enumerate(names, 1)}
        return SimpleNamespace(
            rows=lambda: len(names),
            label=lambda key: column(1, wanted.node_labels, key),
            annotation=lambda key: column(2, wanted.node_annotations, key),
            names=lambda: pack(names),
            find=lambda packed: [known.get(name, 0) for name in unpack(packed)],
        )

    def _http(self, wanted: Any) -> Any:
        def granted(name: str) -> tuple[Any, Callable[[Any], Reply], str]:
            found = [it for it in wanted.endpoints if it.name == name]
            if not found or name not in self.endpoints:
                raise http_error("denied", f"the endpoint {json.dumps(name)} is not granted")
            return (found[0], *self.endpoints[name])

        def send(request: Any) -> Any:
            wish, answer, _ = granted(request.endpoint)
            name, asked = request.method.name, quoted(request.path_and_query, len(request.path_and_query))
            path = request.path_and_query.partition("?")[0] or "/"
            if request.method not in wish.methods:
                raise http_error("denied", f"{name} is not granted on the endpoint {wish.name}")
            if name in ("GET", "HEAD") and request.body:
                raise http_error("denied", f"{name} has no body")
            if why := rules.path(request.path_and_query):
                raise http_error("denied", f"the path {asked} is refused: {why}")
            if wish.paths and not any(path == it or path.startswith(it.removesuffix("/") + "/") for it in wish.paths):
                only = f"is not granted, only {', '.join(wish.paths)}"
                raise http_error("denied", f"the path {asked} of the endpoint {wish.name} {only}")
            if why := rules.headers(request.headers):
                raise http_error("denied", why)
            return _opened(answer(request))

        return SimpleNamespace(Request=_Request, send=send, credential_of=lambda name: t.Credential[granted(name)[2].upper()])


def _opened(reply: Reply) -> Any:
    """An answer as the bindings have it: its body is read as far as the discoverer reads it."""
    pieces, rest = iter([reply.body] if isinstance(reply.body, bytes) else reply.body), b""

    def read(most: int) -> bytes:
        nonlocal rest
        while not rest:
            piece = next(pieces, None)
            if piece is None:
                return b""
            if isinstance(piece, Exception):
                raise piece
            rest = piece
        piece, rest = rest[:most], rest[most:]
        return piece

    headers = [(name.lower(), value) for name, value in reply.headers.items()]
    return SimpleNamespace(status=lambda: reply.status, headers=lambda: headers, read=read)
