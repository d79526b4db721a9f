"""Judges the answers, wishes and requests of a file (`alike.py FILE`, one JSON per line), and compares each verdict, and the text of
each valid answer, with what is in the file."""

import json
import sys

import topoloom
from topoloom import d, pack, t
from topoloom.testing import Cluster, Reply


def members(said):
    [(kind, value)] = said.items()
    if kind == "rows":
        return t.Members_Rows(value)
    if kind == "groups":
        return t.Members_Groups(value)
    if kind == "names":
        return t.Members_Names(pack(value))
    needs = [t.LabelRequirement(it["key"], operator(it["operator"]), it["values"]) for it in value["requirements"]]
    return t.Members_Selector(t.LabelSelector([tuple(pair) for pair in value["labels"]], needs))


def operator(word):
    return t.LabelOperator[word.upper().replace("-", "_")]


def subject(said):
    if said is None:
        return t.Subject_Source()
    [(kind, value)] = said.items()
    return {"rows": t.Subject_Rows, "group": t.Subject_Group, "name": t.Subject_Name}[kind](value)


def answer(said):
    state = bytes(said.get("state", 0))
    if said.get("unchanged"):
        return topoloom.unchanged(state)
    levels = [t.Level(it["tier"], it.get("name"), it.get("kind")) for it in said.get("levels", [])]
    groups = [
        t.Group(it["id"], it["level"], [tuple(pair) for pair in it.get("labels", [])], members(it["members"]), it.get("description"), it.get("name"))
        for it in said.get("groups", [])
    ]
    diagnostics = [t.Diagnostic(it["code"], subject(it.get("about")), it["detail"]) for it in said.get("diagnostics", [])]
    coverage = t.Coverage.ADDITIONS_ONLY if said.get("additionsOnly") else t.Coverage.COMPLETE
    return d.Answer(d.Outcome_Topology(t.Topology(coverage, levels, groups, diagnostics)), state)


def ends(asked):
    """What a round says that asks for this, and sends one request."""

    class Asking:
        def configure(self, config):
            list = topoloom.endpoint("list", "Reads the list", paths=asked["paths"], methods=["get", "post"])
            more = [topoloom.endpoint(f"more{at}", "Reads more") for at in range(asked["endpoints"])]
            triggers = [topoloom.on("timer")] * asked["triggers"]
            labels, annotations = asked["labels"], asked["annotations"]
            return topoloom.requirements(labels=labels, annotations=annotations, endpoints=[list, *more], triggers=triggers)

        def discover(self, config, input):
            method, body = "post" if asked["post"] else "get", b"{}" if asked["body"] else None
            input.http.send("list", asked["path"], method=method, headers=dict(asked["headers"]), body=body)
            return topoloom.Topology()

    try:
        Cluster().endpoint("list", lambda request: Reply(200)).discover(Asking, {})
    except topoloom.Failure as failure:
        return failure.message
    return None


def main(file):
    count = 0
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            count += 1
            if "asked" in case:
                if (verdict := ends(case["asked"])) != case["verdict"]:
                    sys.exit(f"{case['asked']}\nhere:    {verdict}\nin Rust: {case['verdict']}")
                continue
            cluster = Cluster()
            for name in case["nodes"]:
                cluster.node(name)
            cluster.state = b"before" if case["hadState"] else b""
            made = answer(case["said"])
            verdict = cluster.judge(made)
            if verdict != case["verdict"]:
                sys.exit(f"{case['said']}\nhere:    {verdict}\nin Rust: {case['verdict']}")
            shown = None if verdict else cluster.show(made)
            if shown != case["shown"]:
                sys.exit(f"{case['said']}\nhere:    {shown}\nin Rust: {case['shown']}")
    print(f"{count} answers are judged alike")


if __name__ == "__main__":
    main(sys.argv[1])
