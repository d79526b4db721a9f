"""What makes an answer valid, in the words of the host: `sdk/rules` in Python, for `topoloom.testing`."""

from __future__ import annotations

import re
from typing import Any, Iterable, Iterator, Sequence

from topoloom import d, t, unpack

_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.A)
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", re.A)
_RESERVED = "volcano.sh/network-topology-source"


def malformed(answer: Any, rows: int, had_state: bool) -> str | None:
    """The first thing that keeps an answer from meaning something: offsets, positions, counts and lengths of texts."""
    if len(answer.state) > 8 << 20:
        return f"the state of the answer is larger than {8 << 20} bytes"
    if isinstance(answer.outcome, d.Outcome_Unchanged):
        return None if had_state else "the answer is not valid: it answers `unchanged`, but has no state of an earlier answer"
    return next(filter(None, _checks(answer.outcome.value, rows)), None)


def _checks(said: Any, rows: int) -> Iterator[str | None]:
    groups, levels = len(said.groups), len(said.levels)
    yield _many("groups", groups, 2 * rows + 100)
    yield _many("levels", levels, 2 * rows + 100)
    yield _many("diagnostics", len(said.diagnostics), 10_000)
    for level in said.levels:
        yield _short("a tier name", level.tier_name)
        yield _short("a kind", level.kind)
    named = [it.subject.value for it in said.diagnostics if isinstance(it.subject, t.Subject_Rows)]
    yield _many("members", sum(_count(group.members) for group in said.groups), 16 * rows + 100_000)
    yield _many("rows in diagnostics", sum(map(len, named)), 16 * rows + 100_000)
    for at, group in enumerate(said.groups):
        value = group.members.value
        yield _beyond(f"group {at} is of level {{}} and there are {levels} levels", [group.level], levels)
        yield _short("a group id", group.id)
        yield _short("a fixed name", group.fixed_name)
        yield _many("labels in one group", len(group.labels), 64)
        for pair in group.labels:
            yield from map(_short, ("a label key", "a label value"), pair)
        if isinstance(group.members, t.Members_Rows):
            yield _beyond(f"group {at} has node row {{}} and there are {rows} nodes", value, rows)
        elif isinstance(group.members, t.Members_Groups):
            yield _beyond(f"group {at} has group {{}} and there are {groups} groups", value, groups)
        elif isinstance(group.members, t.Members_Names):
            yield from (_short("a member name", name) for name in unpack(value))
        else:
            yield from _selector(at, value)
    for it in said.diagnostics:
        yield _short("a diagnostic code", it.code)
        if isinstance(it.subject, t.Subject_Rows):
            yield _beyond(f"a diagnostic names node row {{}} and there are {rows} nodes", it.subject.value, rows)
        elif isinstance(it.subject, t.Subject_Group):
            yield _beyond(f"a diagnostic names group {{}} and there are {groups} groups", [it.subject.value], groups)


def _selector(position: int, it: Any) -> Iterator[str | None]:
    yield _many("requirements in one selector", len(it.match_labels) + len(it.match_expressions), 64)
    yield _many("values in one selector", sum(len(one.values) for one in it.match_expressions), 1000)
    texts = [text for pair in it.match_labels for text in pair]
    texts += [text for one in it.match_expressions for text in (one.key, *one.values)]
    yield from (_short("a text of a selector", text) for text in texts)
    if len(dict(it.match_labels)) < len(it.match_labels):
        yield f"the answer is not valid: the selector of group {position} has a label key twice"


def _count(members: Any) -> int:
    if isinstance(members, t.Members_Selector):
        return 1
    return len(members.value.ends if isinstance(members, t.Members_Names) else members.value)


def _many(what: str, count: int, most: int) -> str | None:
    return f"the plugin exceeded a limit: it has {count} {what} and may have {most}" if count > most else None


def _short(what: str, text: str | None) -> str | None:
    size = _size(text)
    return f"the plugin exceeded a limit: {what} is {size} bytes long, at most 4096 are read" if size > 4096 else None


def _beyond(words: str, numbers: list[int], bound: int) -> str | None:
    most = max(numbers, default=-1)
    return f"the answer is not valid: {words.format(most)}" if most >= bound else None


def _size(text: str | None) -> int:
    return len((text or "").encode())


def invalid(answer: Any, nodes: list[str]) -> str | None:
    """Every rule of topologies that an answer breaks, or None."""
    if isinstance(answer.outcome, d.Outcome_Unchanged):
        return None
    judge = _Judge(answer.outcome.value, nodes)
    judge.groups()
    judge.links()
    judge.diagnostics()
    found, keys = judge.found, len(judge.keys)
    if found:
        more = f"; and {len(found) - 100} more" if len(found) > 100 else ""
        return f"the topology is not valid: {'; '.join(found[:100])}{more}"
    return f"its selectors read {keys} different labels and may read 64" if keys > 64 else None


class _Judge:
    def __init__(self, said: Any, nodes: list[str]):
        self.said, self.nodes, self.found, self.about = said, nodes, [], ""
        self.levels = [said.levels[group.level] for group in said.groups]
        self.keys: set[str] = set()

    def broken(self, words: str | None, if_so: Any = True) -> None:
        if words and if_so:
            self.found.append(self.about + words)

    def name(self, what: str, rule: str | None) -> None:
        self.broken(f"{what}: {rule}", rule)

    def groups(self) -> None:
        ids: set[str] = set()
        fixed: set[str] = set()
        tiers: dict[str, tuple[int, str]] = {}
        for at, (group, level) in enumerate(zip(self.said.groups, self.levels)):
            size, self.about = _size(group.id), ""
            long = not 1 <= size <= 512
            self.broken(f"the id of the group at position {at} is {size} bytes long, 1 to 512 are allowed", long)
            self.about = f"group {quoted(group.id)}: "
            self.broken("the id is used by an earlier group of this answer", not long and group.id in ids)
            ids.add(group.id)
            self.broken(f"tier {level.tier} is not between 1 and 16", not 1 <= level.tier <= 16)
            size, room = _size(level.kind), "a kind may have 203 to leave room for the rest of the object name"
            self.broken(f"kind: is {size} bytes long, {room}", size > 203)
            if group.fixed_name is not None:
                rule = _name(group.fixed_name, _SUBDOMAIN, 253)
                self.name(f"fixed name {quoted(group.fixed_name)}", rule)
                twice = not rule and group.fixed_name in fixed
                self.broken(f'fixed name "{group.fixed_name}" is used by an earlier group of this answer', twice)
                fixed.add(group.fixed_name)
            size = _size(level.tier_name)
            self.broken(f"the tier name is {size} bytes long, at most 253 are allowed", size > 253)
            if 1 <= size <= 253:
                other, first = tiers.setdefault(level.tier_name, (level.tier, group.id))
                name = f"tier name {quoted(level.tier_name, size)} means tier {level.tier} here"
                self.broken(f"{name} and tier {other} in group {quoted(first)}", other != level.tier)
            known: set[str] = set()
            for key, value in group.labels:
                self.name(f"label key {quoted(key)}", _key(key))
                self.broken(f'label "{key}" is written by the host alone', key == _RESERVED)
                self.name(f"value {quoted(value)} of label {quoted(key)}", _value(value))
                self.broken(f"label {quoted(key)} is given twice", key in known)
                known.add(key)
            self.members(group.members, 1 <= level.tier <= 16)

    def members(self, members: Any, has_tier: bool) -> None:
        value, names = members.value, set()  # type: ignore[var-annotated]
        count, size = _count(members), 0
        if isinstance(members, t.Members_Rows):
            for row in value if has_tier else []:
                self.broken(f"row {row} is a member twice", row in names)
                names.add(row)
            size = sum(_size(self.nodes[row]) for row in names)
        elif isinstance(members, t.Members_Names):
            for name in unpack(value):
                self.name(f"member {quoted(name)}", _name(name, _SUBDOMAIN, 253))
                names.add(name)
            count, size = len(names), sum(map(_size, names))
        elif isinstance(members, t.Members_Groups):
            size = 64 * count
        else:
            self.selector(value)
        self.broken("the group has no members", not count)
        size += 65 * count
        remedy = "split the group, or select its nodes by a label"
        about = f"{count} members make an object of about {size} bytes, at most 1258291 fit: {remedy}"
        self.broken(about, size > 1258291)

    def selector(self, it: Any) -> None:
        self.broken("selector: it is empty and would select nothing", not it.match_labels and not it.match_expressions)
        for key, value in sorted(it.match_labels, key=lambda pair: pair[0].encode()):
            self.requirement(key, [value])
        for one in it.match_expressions:
            self.requirement(one.key, one.values, bool(one.values) != (one.operator.name in ("IN", "NOT_IN")))

    def requirement(self, key: str, values: Iterable[str], is_wrong: bool = False) -> None:
        self.keys.add(key)
        rule = "In and NotIn need at least one value, Exists and DoesNotExist must have none"
        self.name(f"selector: key {quoted(key)}", _key(key))
        self.broken(f"selector: key {quoted(key)}: {rule}", is_wrong)
        for value in values:
            self.name(f"selector: value {quoted(value)} of {quoted(key)}", _value(value))

    def links(self) -> None:
        parents: dict[int, int] = {}
        for at, (group, level) in enumerate(zip(self.said.groups, self.levels)):
            self.about = f"group {quoted(group.id)}: "
            for child in group.members.value if isinstance(group.members, t.Members_Groups) else []:
                name, tier = quoted(self.said.groups[child].id), self.levels[child].tier
                self.broken(f"member group {name} has tier {tier}, which is not below {level.tier}", tier >= level.tier)
                self.broken(f"group {name} is a member twice", parents.get(child) == at)
                parent = parents.setdefault(child, at)
                already = f"it is already a member of group {quoted(self.said.groups[parent].id)}"
                self.broken(f"member group {name} has two parents: {already}", parent != at)

    def diagnostics(self) -> None:
        self.about = ""
        for it in self.said.diagnostics:
            words = f"diagnostic code {quoted(it.code)}: 1 to 64 of a-z, 0-9 and '-' are allowed"
            self.broken(words, not re.fullmatch("[a-z0-9-]{1,64}", it.code))


def wishes(wanted: Any) -> str | None:
    """The first thing that is wrong with what `configure` asks for, or None."""
    return next(filter(None, _wished(wanted)), None)


def _wished(wanted: Any) -> Iterator[str | None]:
    yield _many("required node labels", len(wanted.node_labels), 64)
    yield _many("required node annotations", len(wanted.node_annotations), 64)
    yield _many("endpoints", len(wanted.endpoints), 16)
    yield _many("triggers", len(wanted.triggers), 16)
    for key in (*wanted.node_labels, *wanted.node_annotations):
        if rule := _key(key):
            yield f"the answer is not valid: it asks for the node label or annotation {quoted(key)}: {rule}"
    for it in wanted.endpoints:
        yield _many("methods of one endpoint", len(it.methods), 64)
        yield _many("paths of one endpoint", len(it.paths), 64)
        yield _many("kinds of credential of one endpoint", len(it.credentials), 64)
        yield from (_short("a text of an endpoint", text) for text in (*it.paths, it.tls.server_name, it.name))
        size = _size(it.tls.ca_bundle)
        words = f"the plugin exceeded a limit: a bundle of certificates is {size} bytes long, at most {1 << 20} are read"
        yield words if size > 1 << 20 else None


_HEADERS = (
    "accept, accept-charset, accept-language, cache-control, content-language, content-type, if-match, if-modified-since, "
    "if-none-match, if-unmodified-since, pragma, x-request-id"
)


def headers(asked: Sequence[tuple[str, str]]) -> str | None:
    """Why a plugin may not set these headers, or None."""
    if len(asked) > 32:
        return f"{len(asked)} headers, at most 32 may be set"
    for name, value in asked:
        why = None
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
            why = "has no valid name"
        elif name.lower() not in _HEADERS.split(", "):
            why = f"belongs to the host; a plugin may set {_HEADERS}"
        elif _size(value) > 4096:
            why = "is longer than 4096 bytes"
        elif not re.fullmatch(r"[\t -~]*", value):
            why = "has a value with a control character or a character beyond ASCII"
        if why:
            return f"the header {quoted(name)} {why}"
    return None


def path(text: str) -> str | None:
    """What two readers of a path could understand differently, or None."""
    if _size(text) > 4096:
        return "it is longer than 4096 bytes"
    if text and not text.startswith("/"):
        return "it does not begin with `/`"
    if not re.fullmatch("[!-~]*", text):
        return "it has a space, a control character or a character beyond ASCII; encode it"
    if "#" in text:
        return "it has a fragment"
    seen = text.partition("?")[0]
    for _ in range(4):
        if "\\" in seen:
            return "it has a backslash"
        if re.search(r"[\x00-\x1f\x7f-\x9f]", seen):
            return "it has an encoded control character"
        if seen.startswith("//"):
            return "it begins with `//`, which could name another host"
        if any(part.partition(";")[0] in (".", "..") for part in seen.split("/")[1:]):
            return "it has a `.` or `..` segment"
        following = _decoded(seen)
        if following is None:
            return "it has a `%` that begins no encoded character"
        if following == seen:
            return None
        seen = following
    return "it is encoded over and over"


def _decoded(text: str) -> str | None:
    """A path with its encoded characters decoded once. A slash becomes a backslash: not every reader separates by it."""
    if re.search("%(?![0-9A-Fa-f]{2})", text):
        return None
    data = re.sub(b"%(..)", lambda found: bytes.fromhex(found[1].decode()).replace(b"/", b"\\"), text.encode(), flags=re.S)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def quoted(text: str, most: int = 80) -> str:
    """A text of an answer, shortened for a message."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
    shown = "".join(escapes.get(c, c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in text[:most])
    return f'"{shown}"' + ("…" if len(text) > most else "")


def _name(text: str, rule: re.Pattern[str], most: int) -> str | None:
    """Why a text is no name of a kind."""
    size, label = _size(text), "letters, digits, '-', '_' and '.', and begin and end with a letter or digit"
    parts = "lower-case letters, digits, '-' and '.', and each part between dots must begin and end with a letter or digit"
    if not size:
        return "must not be empty"
    if size > most:
        return f"is {size} bytes long, at most {most} are allowed"
    return None if rule.fullmatch(text) else f"must consist of {parts if rule is _SUBDOMAIN else label}"


def _key(text: str) -> str | None:
    prefix, slash, name = text.partition("/")
    if "/" in name:
        return "must have at most one '/', between an optional prefix and the name"
    return (_name(prefix, _SUBDOMAIN, 253) if slash else None) or _name(name if slash else text, _LABEL, 63)


def _value(text: str) -> str | None:
    return _name(text, _LABEL, 63) if text else None
