//! Answers out of a seed: mostly as they should be, so that a mistake is met alone as well as among others.

use serde_json::{Value, json};
use topoloom_tests::dice::Dice;

use super::Case;

/// One of so many attributes is odd.
const ODD: usize = 40;

/// Answers of a seed.
pub(super) fn random(seed: u64, count: usize) -> Vec<Case> {
    let mut draw = Draw(Dice::new(seed));
    (0..count).map(|_| draw.case()).collect()
}

struct Draw(Dice);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0.below(end)
    }

    /// Whether this is one of the few.
    fn rare(&mut self, one_of: usize) -> bool {
        self.below(one_of) == 0
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    /// Mostly one of the first, sometimes one of the others.
    fn pick<T: Clone>(&mut self, good: &[T], odd: &[T]) -> T {
        if self.rare(ODD) { self.one(odd) } else { self.one(good) }
    }

    fn case(&mut self) -> Case {
        let nodes = self.below(7);
        let had_state = self.rare(2);
        if self.rare(50) {
            return Case { nodes, had_state, said: json!({"unchanged": true, "state": self.below(3)}) };
        }
        let levels: Vec<Value> = (1..=1 + self.below(3)).map(|tier| self.level(tier)).collect();
        let count = self.below(7);
        let groups: Vec<Value> = (0..count).map(|at| self.group(at, count, levels.len(), nodes)).collect();
        let diagnostics: Vec<Value> = (0..self.below(3)).map(|_| self.diagnostic(count, nodes)).collect();
        let said = json!({
            "state": self.below(4), "additionsOnly": self.rare(3), "levels": levels, "groups": groups,
            "diagnostics": diagnostics,
        });
        Case { nodes, had_state, said }
    }

    fn level(&mut self, tier: usize) -> Value {
        let tier = self.pick(&[tier], &[0, 17, 99, 4_294_967_295]);
        let long = |length| "t".repeat(length);
        let own = format!("tier-{tier}");
        let names = [json!(null), json!(own), json!(""), json!("Böden \"oben\"")];
        let name = match self.below(4) {
            0 => self.pick(&names, &[json!("rack"), json!(long(253)), json!(long(254))]),
            _ => names[self.below(2)].clone(),
        };
        let kind = self.pick(&[json!(null), json!("rack"), json!("Größe_1")], &[json!(long(203)), json!(long(204))]);
        json!({"tier": tier, "name": name, "kind": kind})
    }

    fn group(&mut self, at: usize, count: usize, levels: usize, nodes: usize) -> Value {
        let odd = ["g0".to_owned(), String::new(), "x".repeat(512), "x".repeat(513), "ä\"\\\n\t🙂".repeat(20)];
        let id = self.pick(&[format!("g{at}")], &odd);
        // Groups with groups come later and higher.
        let level = self.pick(&[(at * levels / count.max(1)).min(levels - 1)], &[0, levels - 1, levels]);
        let labels: Vec<Value> = (0..self.below(3)).map(|at| self.label(at)).collect();
        let odd = ["leaf-hn-0", "Not_A_Name", "a..b", "ä"].map(|name| json!(name));
        let name = self.pick(&[json!(null)], &odd);
        let members = self.members(at, count, level, nodes);
        json!({"id": id, "level": level, "labels": labels, "members": members, "name": name})
    }

    fn label(&mut self, at: usize) -> Value {
        let long = "k".repeat(64);
        let reserved = "volcano.sh/network-topology-source";
        let odd = ["a b", "a//b", "-x", "", "Ex.io/rack", "/b", "key-0", "ä/b", &long, reserved];
        let key = self.pick(&[format!("key-{at}"), format!("ex.io/key-{at}")], &odd.map(str::to_owned));
        let odd = ["-", "a/7", "ä", "\"", &long];
        let value = self.pick(&["a7", "", "A_b.c-9"].map(str::to_owned), &odd.map(str::to_owned));
        json!([key, value])
    }

    fn members(&mut self, at: usize, count: usize, level: usize, nodes: usize) -> Value {
        match self.below(10) {
            0 | 1 => {
                let names = ["n0", "n1", "gone-1", "gone.example", "n0"].map(str::to_owned);
                let odd = ["N_1", "", "ä", "a..b"].map(str::to_owned);
                let names: Vec<String> = (0..1 + self.below(3)).map(|_| self.pick(&names, &odd)).collect();
                if self.rare(20) {
                    return self.packed();
                }
                json!({"names": if self.rare(ODD) { Vec::new() } else { names }})
            }
            2 => json!({"selector": self.selector()}),
            3..=6 if level > 0 && at > 0 => {
                let own = json!({"groups": [self.below(at)]});
                let odd = [json!([]), json!([at]), json!([0, 0]), json!([count]), json!([count - 1])];
                if self.rare(6) { json!({"groups": self.one(&odd)}) } else { own }
            }
            _ => self.rows(nodes),
        }
    }

    fn rows(&mut self, nodes: usize) -> Value {
        if nodes == 0 || self.rare(ODD) {
            return json!({"rows": self.one(&[vec![], vec![nodes], vec![0, nodes + 7], vec![4_294_967_295]])});
        }
        let mut rows: Vec<usize> = (0..nodes).filter(|_| self.rare(2)).collect();
        if rows.is_empty() {
            rows.push(self.below(nodes));
        }
        if self.rare(ODD) {
            rows.push(rows[0]);
        }
        json!({"rows": rows})
    }

    /// Offsets that no SDK makes.
    fn packed(&mut self) -> Value {
        let (text, ends) = self.one(&[("ab", vec![2, 1]), ("aä", vec![1, 2]), ("ab", vec![1]), ("ab", vec![1, 3])]);
        json!({"packed": {"text": text, "ends": ends}})
    }

    fn selector(&mut self) -> Value {
        let labels: Vec<Value> = (0..self.below(3)).map(|at| self.label(at)).collect();
        let requirements: Vec<Value> = (0..self.below(3)).map(|at| self.requirement(at)).collect();
        json!({"labels": labels, "requirements": requirements})
    }

    fn requirement(&mut self, at: usize) -> Value {
        let key = self.pick(&[format!("need-{at}")], &["a b".to_owned(), String::new()]);
        let operator = self.one(&["in", "not-in", "exists", "does-not-exist"]);
        let wants = operator.ends_with("in") != self.rare(ODD);
        let values = if wants { vec![self.pick(&["a", "b"], &["-"])] } else { Vec::new() };
        json!({"key": key, "operator": operator, "values": values})
    }

    fn diagnostic(&mut self, groups: usize, nodes: usize) -> Value {
        let odd = ["No Rack".to_owned(), String::new(), "c".repeat(65)];
        let code = self.pick(&["no-rack", "odd-7"].map(str::to_owned), &odd);
        let mut about = vec![json!(null), json!({"name": "switch \"7\""})];
        if groups > 0 {
            about.push(json!({"group": self.below(groups)}));
        }
        if nodes > 0 {
            about.push(json!({"rows": [self.below(nodes)]}));
        }
        let about = self.pick(&about, &[json!({"group": groups}), json!({"rows": [nodes]})]);
        json!({"code": code, "detail": "a sentence", "about": about})
    }
}

/// Answers beyond bounds that chance does not reach.
pub(super) fn beyond() -> Vec<Case> {
    let level = json!([{"tier": 1}]);
    let group = |id: String, members: Value| json!({"id": id, "level": 0, "members": members});
    let rows = || json!({"rows": [0]});
    let one = |members: Value| json!({"levels": level.clone(), "groups": [group("a".into(), members)]});
    let many = |count: usize| (0..count).map(|at| group(format!("g{at}"), rows())).collect::<Vec<_>>();
    let selector = |labels: Vec<Value>, requirements: Vec<Value>| -> Value {
        json!({"selector": {"labels": labels, "requirements": requirements}})
    };
    let pairs = |from: usize, count: usize| -> Vec<Value> {
        (from..from + count).map(|at| json!([format!("k{at}"), "v"])).collect()
    };
    let long = "x".repeat(4097);
    let labelled = |labels: Vec<Value>| -> Value {
        json!({"levels": level.clone(), "groups": [{"id": "a", "level": 0, "labels": labels, "members": rows()}]})
    };
    let values = |count: usize| vec![json!({"key": "k", "operator": "in", "values": vec!["v"; count]})];
    let names = |count: usize| json!({"names": (0..count).map(|at| format!("node-{at:06}")).collect::<Vec<_>>()});
    let diagnostics = |count: usize| vec![json!({"code": "c", "detail": "d"}); count];
    let said = [
        json!({"levels": level.clone(), "groups": many(102)}),
        json!({"levels": level.clone(), "groups": many(103)}),
        json!({"levels": vec![json!({"tier": 1}); 103], "groups": []}),
        labelled(pairs(0, 64)),
        labelled(pairs(0, 65)),
        one(selector(pairs(0, 64), Vec::new())),
        one(selector(pairs(0, 65), Vec::new())),
        one(selector(Vec::new(), values(1000))),
        one(selector(Vec::new(), values(1001))),
        one(selector(vec![json!(["k", "v"]), json!(["k", "w"])], Vec::new())),
        json!({"levels": level.clone(), "groups": [
            group("a".into(), selector(pairs(0, 40), Vec::new())),
            group("b".into(), selector(pairs(30, 40), Vec::new())),
        ]}),
        one(names(16_000)),
        one(names(20_000)),
        json!({"levels": level.clone(), "groups": [group(long.clone(), rows())]}),
        json!({"levels": [{"tier": 1, "name": long}], "groups": []}),
        labelled(vec![json!(["k", long])]),
        one(json!({"names": [long]})),
        json!({"diagnostics": diagnostics(10_000)}),
        json!({"diagnostics": diagnostics(10_001)}),
        json!({"state": 8 << 20}),
        json!({"state": (8 << 20) + 1}),
        // A flood of mistakes is counted.
        one(json!({"rows": vec![0; 300]})),
        // Twins: two fixed names, two parents, a tier name of two tiers.
        json!({"levels": [{"tier": 1, "name": "rack"}, {"tier": 2, "name": "rack"}, {"tier": 2}], "groups": [
            {"id": "a", "level": 0, "members": {"rows": [0]}, "name": "same"},
            {"id": "b", "level": 1, "members": {"groups": [0]}, "name": "same"},
            {"id": "c", "level": 2, "members": {"groups": [0]}},
        ]}),
    ];
    said.into_iter().map(|said| Case { nodes: 1, had_state: false, said }).collect()
}
