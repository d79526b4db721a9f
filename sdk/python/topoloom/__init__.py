"""Write a topology discoverer for topoloom in Python.

    @topoloom.plugin
    class Discoverer:
        name, version, vendor, summary = "racks", "0.1.0", "Acme", "One group per rack label"
        fields = {"label": str}

        def configure(self, config):
            return topoloom.requirements(labels=[config["label"]], triggers=[topoloom.on("columns")])

        def discover(self, config, input):
            topology = topoloom.Topology()
            racks = topology.level(1, name=config["label"])
            for rack, rows in input.nodes.label(config["label"]).by_value():
                topology.group(racks, rack, rows=rows, labels={config["label"]: rack})
            return topology

The class runs natively in a test (`topoloom.testing`) and, over the bindings of componentize-py, as a component. An exception
that is no `Failure` is in the host's log, with its place, before it ends the call. Nothing is retried, and no state is global.
"""

from __future__ import annotations

import enum
import importlib
import json
import re
from dataclasses import make_dataclass
from types import SimpleNamespace
from typing import Any, Callable, Iterable, Mapping, Sequence


def _bindings(name: str) -> Any:
    """A module of the bindings: only a component has them, and of the imports only those that its world names."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _records(shapes: str) -> SimpleNamespace:
    """Records and cases of the interface, where there are no bindings, under the names that bindings give them."""
    words = (shape.split() for shape in shapes.split(";"))
    return SimpleNamespace(**{name: make_dataclass(name, fields) for name, *fields in words})


# A component finds everything at build time: at run time there are no files to import.
_is_component = _bindings("wit_world") is not None
_http, _applied, _log = (_bindings("wit_world.imports." + name) for name in ("http", "applied", "log"))
Err: Any = importlib.import_module("componentize_py_types").Err if _is_component else type("Err", (Exception,), {})
t: Any = _bindings("wit_world.imports.types") or _records(
    "Packed text ends; Level tier tier_name kind; Group id level labels members description fixed_name; Members_Rows value;"
    "Members_Groups value; Members_Names value; Members_Selector value; LabelSelector match_labels match_expressions;"
    "LabelRequirement key operator values; Diagnostic code subject detail; Subject_Source; Subject_Rows value;"
    "Subject_Group value; Subject_Name value; Topology coverage levels groups diagnostics"
)
d: Any = _bindings("wit_world.exports.discoverer") or _records(
    "Location_Granted; Tls ca_bundle server_name insecure_skip_verify; Pause at_least; Trigger_Columns value;"
    "Trigger_Names value; Trigger_Timer value; Endpoint name purpose location methods paths tls credentials;"
    "Requirements node_labels node_annotations endpoints triggers; Outcome_Unchanged; Outcome_Topology value;"
    "Answer outcome state; Description name version vendor summary config_schema; Problem path message"
)
if not _is_component:
    t.Coverage = enum.Enum("Coverage", "COMPLETE ADDITIONS_ONLY")
    t.LabelOperator = enum.Enum("LabelOperator", "IN NOT_IN EXISTS DOES_NOT_EXIST")
    t.Method = enum.Enum("Method", "GET HEAD POST PUT PATCH DELETE")
    t.Credential = enum.Enum("Credential", "NONE BASIC TOKEN BEARER MTLS")
_LEVELS = ("debug", "info", "warn", "error")
_lines: list[tuple[str, str]] = []  # What a native test logged.


def log(level: str, message: str) -> None:
    """A line for the host's log: `debug`, `info`, `warn` or `error`. At most 200 lines of 4 KiB per call."""
    if level not in _LEVELS:
        raise ValueError(f"the log has no level {level!r}; use one of {', '.join(_LEVELS)}")
    if _log is not None:
        _log.write(_log.Level[level.upper()], message)
    elif not _is_component:
        _lines.append((level, message))


class Problems(Exception):
    """What is wrong with a configuration: pairs of path and message, all of them at once."""

    def __init__(self, *problems: tuple[str, str]):
        super().__init__("; ".join(f"{path}: {message}" if path else message for path, message in problems))
        self.problems = problems


class Failure(Exception):
    """Why a round has no answer: `config`, `denied`, `unauthorized`, `upstream` or `internal`. The topology stays.

    `retry_after` is in milliseconds; `cause` is why a request had no answer, as in `http_error`.
    """

    def __init__(self, kind: str, message: str, retry_after: int | None = None, cause: str | None = None):
        super().__init__(message)
        self.kind, self.message, self.retry_after, self.cause = kind, message, retry_after, cause


def pack(texts: Iterable[str]) -> Any:
    """Many strings as one text. Its `ends` count bytes of UTF-8: they are no positions in a `str`."""
    texts, ends, length = list(texts), [], 0
    for text in texts:
        length += len(text.encode())
        ends.append(length)
    return t.Packed("".join(texts), ends)


def unpack(packed: Any) -> list[str]:
    """The strings of a packed text."""
    data = packed.text.encode()
    return [data[begin:end].decode() for begin, end in zip([0, *packed.ends], packed.ends)]


class Column:
    """One label or annotation key over all nodes. Two nodes have the same value exactly when they have the same code."""

    def __init__(self, texts: list[str], codes: Sequence[int]):
        self.texts, self.codes = texts, codes  # Code 0: the node lacks the key; n: text n-1.

    def values(self) -> list[str | None]:
        """The value of each node, by row; None when the node lacks the key."""
        return [self.texts[code - 1] if code else None for code in self.codes]

    def by_value(self) -> list[tuple[str, list[int]]]:
        """The nodes of each value that at least one node has, rows in ascending order."""
        rows: list[list[int]] = [[] for _ in range(len(self.texts) + 1)]
        for row, code in enumerate(self.codes):
            rows[code].append(row)
        return [(text, members) for text, members in zip(self.texts, rows[1:]) if members]


class Nodes:
    """The nodes of the cluster: rows 0 to `rows`-1, in no particular order, valid for this call only."""

    def __init__(self, source: Any):
        self._source = source

    @property
    def rows(self) -> int:
        """How many nodes there are."""
        return self._source.rows()

    def label(self, key: str) -> Column:
        """The column of a label key of the requirements. Any other key is absent on every node."""
        column = self._source.label(key)
        return Column(unpack(column.dictionary), column.codes)

    def annotation(self, key: str) -> Column:
        """The column of an annotation key of the requirements."""
        column = self._source.annotation(key)
        return Column(unpack(column.dictionary), column.codes)

    def names(self) -> list[str]:
        """The names of all nodes, by row. Prefer `find`, which copies less."""
        return unpack(self._source.names())

    def find(self, names: Iterable[str]) -> list[int | None]:
        """The rows of nodes with these names; None where there is no such node."""
        return [found - 1 if found else None for found in self._source.find(pack(names))]


def _numbers(what: str, numbers: Iterable[int]) -> list[int]:
    """Rows and positions as the interface has them: None is no row, and -1 is not the last one."""
    numbers = list(numbers)
    for number in numbers:
        if type(number) is not int or not 0 <= number < 1 << 32:
            raise TypeError(f"{what}: {number!r} is no integer from 0 to 4294967295; leave out what was not found")
    return numbers


class Topology:
    """The answer under construction, groups lowest tier first. `state` is for the next round, at most 8 MiB."""

    def __init__(self, *, additions_only: bool = False, state: bytes = b""):
        coverage = t.Coverage.ADDITIONS_ONLY if additions_only else t.Coverage.COMPLETE
        self._topology, self.state = t.Topology(coverage, [], [], []), state

    def level(self, tier: int, *, name: str | None = None, kind: str | None = None) -> int:
        """A tier, 1 (closest) to 16, the name that users have for it, and a word for names of objects."""
        self._topology.levels.append(t.Level(tier, name, kind))
        return len(self._topology.levels) - 1

    def group(
        self, level: int, id: str, *, rows: Iterable[int] | None = None, groups: Iterable[int] | None = None,
        names: Iterable[str] | None = None, selector: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None, description: str | None = None, fixed_name: str | None = None,
    ) -> int:
        """A group with one kind of members. `id` is the same in every round as long as the domain is the same."""
        members = [t.Members_Rows(_numbers(f"rows of the group {id}", rows))] if rows is not None else []
        members += [t.Members_Groups(_numbers(f"groups of the group {id}", groups))] if groups is not None else []
        members += [t.Members_Names(pack(names))] if names is not None else []
        members += [t.Members_Selector(t.LabelSelector(list(selector.items()), []))] if selector is not None else []
        if len(members) != 1:
            raise TypeError(f"the group {id!r} needs one of rows, groups, names and selector")
        [level] = _numbers(f"level of the group {id}", [level])
        group = t.Group(id, level, list((labels or {}).items()), members[0], description, fixed_name)
        self._topology.groups.append(group)
        return len(self._topology.groups) - 1

    def diagnose(
        self, code: str, detail: str, *, rows: Iterable[int] | None = None, group: int | None = None, name: str | None = None
    ) -> None:
        """Reports a record that was dropped or corrected: a short stable word, and a sentence with the value met."""
        subject = t.Subject_Source() if name is None else t.Subject_Name(name)
        subject = subject if group is None else t.Subject_Group(_numbers(f"group of {code}", [group])[0])
        subject = subject if rows is None else t.Subject_Rows(_numbers(f"rows of {code}", rows))
        self._topology.diagnostics.append(t.Diagnostic(code, subject, detail))

    def answer(self) -> Any:
        """The answer of the interface."""
        return d.Answer(d.Outcome_Topology(self._topology), self.state)


def unchanged(state: bytes) -> Any:
    """Exactly what the last answer said. Only after an answer whose state came back in `input.state`."""
    return d.Answer(d.Outcome_Unchanged(), state)


def on(what: str, at_least: int = 0) -> Any:
    """A round starts when required `columns` change, when `names` appear or go, when the `timer` of the entry has passed.

    So many milliseconds lie at least between the starts of two such rounds.
    """
    return getattr(d, f"Trigger_{what.capitalize()}")(d.Pause(at_least))


def endpoint(
    name: str, purpose: str, *, paths: Iterable[str] = (), methods: Iterable[str] = ("get",), credentials: Iterable[str] = ()
) -> Any:
    """An endpoint whose address the operator configures: `purpose` is a sentence for him, `credentials` are best first."""
    wishes = [t.Method[method.upper()] for method in methods], [t.Credential[kind.upper()] for kind in credentials]
    return d.Endpoint(name, purpose, d.Location_Granted(), wishes[0], list(paths), d.Tls(None, None, False), wishes[1])


def requirements(
    *, labels: Iterable[str] = (), annotations: Iterable[str] = (), endpoints: Iterable[Any] = (), triggers: Iterable[Any] = ()
) -> Any:
    """What a configuration needs: label and annotation keys, endpoints, and what starts a round."""
    return d.Requirements(list(labels), list(annotations), list(endpoints), list(triggers))


_CAUSES = {"connect": "no connection: ", "timeout": "out of time: ", "too-large": "too large: ", "protocol": "protocol error: "}


def http_error(cause: str, reason: str) -> Failure:
    """A request without an answer (`denied`, `connect`, `timeout`, `too-large`, `protocol`) as the failure of the round."""
    return Failure("upstream" if cause in _CAUSES else "denied", _CAUSES.get(cause, "") + reason, cause=cause)


def _asked(ask: Callable[[Any], Any], argument: Any) -> Any:
    """Calls the host; an error of the bindings (`Error_TooLarge`) becomes ours (`too-large`)."""
    try:
        return ask(argument)
    except Err as error:
        cause = type(error.value).__name__.rpartition("_")[2].replace("TooLarge", "too-large").lower()
        raise http_error(cause, error.value.value) from None


class Response:
    """An answer whose body is still on its way. Any status arrives here, 3xx and 401 too. Names of headers are lower-case."""

    def __init__(self, source: Any):
        self._source, self.status, self.headers = source, source.status(), dict(reversed(source.headers()))

    def success(self) -> Response:
        """Itself when the status is 200 to 299; any other one raises the failure that fits."""
        status, location = self.status, json.dumps(self.headers.get("location", ""))
        seconds = re.fullmatch("[0-9]{1,9}", self.headers.get("retry-after", "").strip())
        if 200 <= status <= 299:
            return self
        if status in (401, 403):
            raise Failure("unauthorized", f"status {status}")
        if 300 <= status <= 399:
            more = " to a request that did not ask for it" if status == 304 else f": redirects to {location}"
            raise Failure("upstream", f"status {status}{more}")
        raise Failure("upstream", f"status {status}", int(seconds[0]) * 1000 if seconds else None)

    def read(self, most: int = 256 << 10) -> bytes:
        """The next piece of the body; empty at its end. A body that breaks off raises."""
        return _asked(self._source.read, most)


class Http:
    """The endpoints that the operator granted, by name: the host knows the address and adds the credential."""

    def __init__(self, source: Any):
        self._known = source

    @property
    def _source(self) -> Any:
        if self._known is None:  # A component imports what its project says.
            raise TypeError("the plugin has no `http`; add it to `uses` of topoloom-plugin.yaml")
        return self._known

    def send(
        self, endpoint: str, path: str = "", *, method: str = "get", headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Response:
        """Sends a request. Returns with the head of the answer; the body follows."""
        request = self._source.Request(endpoint, t.Method[method.upper()], path, list((headers or {}).items()), body)
        return Response(_asked(self._source.send, request))

    def credential_of(self, endpoint: str) -> str:
        """The kind of credential that the host adds: `none`, `basic`, `token`, `bearer` or `mtls`."""
        return _asked(self._source.credential_of, endpoint).name.lower()


def _configure(cls: type, config: str) -> Any:
    """What a configuration needs: natively, and in a component. The interface has no failure here."""
    try:
        return cls().configure(_read(cls, config))
    except Failure as failure:
        raise Problems(("", failure.message)) from None


def _discover(cls: type, config: str, nodes: Any, round: Any, http: Any, applied: Any) -> Any:
    """One round of a class: natively, and in a component. The interface has one failure for all problems here."""
    input = SimpleNamespace(nodes=Nodes(nodes), http=Http(http), applied=applied, time=round.time, state=bytes(round.state))
    try:
        answer = cls().discover(_read(cls, config), input)
    except Problems as problems:
        raise Failure("config", str(problems)) from None
    return answer.answer() if isinstance(answer, Topology) else answer


def _place(error: BaseException) -> str:
    """An exception on one line, with the three innermost places."""
    places, at = [], error.__traceback__
    while at:
        code = at.tb_frame.f_code
        places.append(f"{code.co_filename.rpartition('/')[2]}:{at.tb_lineno} in {code.co_name}")
        at = at.tb_next
    return f"{type(error).__name__}: {error}, at {' < '.join(places[:-4:-1])}"


def plugin(cls: Any) -> Any:
    """Makes a class the `Discoverer` of a component. A test uses it through `topoloom.testing.Cluster`."""

    def guarded(ask: Callable[[], Any], told: Callable[[str], Any] | None) -> Any:
        try:
            return ask()
        except Problems as error:
            raise Err([d.Problem(path, message) for path, message in error.problems]) from None
        except Failure as error:
            said = t.UpstreamFailure(error.message, error.retry_after) if error.kind == "upstream" else error.message
            raise Err(getattr(t, f"Failure_{error.kind.capitalize()}")(said)) from None
        except Exception as error:
            log("error", _place(error))
            if _log is None and told:  # Where the world has no log, the answer says it.
                raise Err(told(_place(error))) from None
            raise

    class Discoverer:
        plugin = cls

        def describe(self) -> Any:
            return guarded(lambda: d.Description(cls.name, cls.version, cls.vendor, cls.summary, _schema(cls)), None)

        def configure(self, config: str) -> Any:
            return guarded(lambda: _configure(cls, config), lambda words: [d.Problem("", words)])

        def discover(self, config: str, nodes: Any, round: Any) -> Any:
            return guarded(lambda: _discover(cls, config, nodes, round, _http, _applied), lambda words: t.Failure_Internal(words))

    return Discoverer


from .config import read as _read, schema as _schema  # noqa: E402: they use what is above
from .elements import Elements, Odd  # noqa: E402, F401
