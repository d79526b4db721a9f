//! Texts from a seed: configurations that are mostly valid, and any JSON.
//!
//! No number is nearly as large as 64 bits: beyond them `serde_json` gets some last digits wrong.

/// Scalars of every kind, also strange ones.
const SCALARS: [&str; 24] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "7",
    "-7",
    "255",
    "256",
    "1.5",
    "-2.25",
    "100.0",
    "65536",
    "4294967296",
    "-2147483649",
    r#""""#,
    r#""a""#,
    r#""up""#,
    r#""zürich""#,
    r#""\u00fc\n""#,
    r#""\ud834\udd1e""#,
    r#""Auto""#,
    "[]",
    "{}",
];
const KEYS: [&str; 10] = ["a", "b", "up", "down", "type", "level", "size", "7", "n\\u0061me", "ü"];
const FIELDS: [(&str, &[&str]); 16] = [
    ("count", &["1", "null", "255"]),
    ("share", &["0.5", "1", "-0.25", "null"]),
    ("small", &["0.5", "3"]),
    ("below", &["-1", "7"]),
    ("huge", &["1", "700"]),
    ("deep", &["-1", "700"]),
    ("levels", &["[]", r#"[{"level":1},{"level": 2, "names": ["x", "\t"], "more": [{}, 1e5]}]"#]),
    ("kind", &[r#""Auto""#, r#"{"Auto":null}"#, r#"{"Named":"x"}"#, r#"{"Pair":[1,2]}"#, r#"{"Full":{"a":1}}"#]),
    ("by", &["{}", r#"{"1":true,"65535":false}"#]),
    ("flags", &[r#"{"true":"up"}"#, r#"{"false":null,"true":"down"}"#]),
    ("pair", &[r#"[1,"x"]"#, r#"[ -1 , "ü" ]"#]),
    ("nothing", &["null"]),
    ("wrapped", &["7", "null"]),
    ("free", &["7", r#"{"a":[1,"x",null],"a":{}}"#]),
    ("shape", &[r#"{"type":"ring","size":3}"#, r#"{"size":3,"type":"ring"}"#, r#"{"type":"line"}"#]),
    ("either", &["1", "1.5", r#""x""#, r#"[1,["x"]]"#, r#"{"level":1}"#]),
];

/// Numbers from a seed (xorshift).
pub(super) struct Maker(u64);

impl Maker {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn space(&mut self) -> &'static str {
        self.one_of(&["", "", "", " ", "\n", "\t \r"])
    }

    /// Any JSON.
    pub(super) fn value(&mut self, depth: usize) -> String {
        if depth == 0 || self.below(3) == 0 {
            return self.one_of(&SCALARS).to_owned();
        }
        let is_mapping = self.below(2) == 0;
        let items: Vec<String> = (0..self.below(4))
            .map(|_| {
                let key =
                    if is_mapping { format!("\"{}\"{}:", self.one_of(&KEYS), self.space()) } else { String::new() };
                format!("{}{key}{}{}", self.space(), self.value(depth - 1), self.space())
            })
            .collect();
        let [open, close] = if is_mapping { ["{", "}"] } else { ["[", "]"] };
        format!("{open}{}{close}", items.join(","))
    }

    /// A configuration of the test. Few have a mistake.
    pub(super) fn config(&mut self) -> String {
        let mut entries = vec![format!("\"n{}me\":{}\"x\"", self.one_of(&["a", "\\u0061"]), self.space())];
        for (field, values) in FIELDS {
            match self.below(40) {
                0..12 => entries.push(format!("{}\"{field}\":{}", self.space(), self.one_of(values))),
                12 => entries.push(format!("\"{field}\":{}", self.value(2))),
                _ => {}
            }
        }
        if self.below(20) == 0 {
            entries.push(format!("\"{}\":1", self.one_of(&KEYS)));
        }
        let first = self.below(entries.len());
        entries.rotate_left(first);
        format!("{{{}{}}}{}", entries.join(","), self.space(), self.space())
    }

    /// Writes another byte over one, removes one or doubles one.
    pub(super) fn change(&mut self, text: &mut Vec<u8>) {
        let at = self.below(text.len());
        match self.below(4) {
            0 => drop(text.remove(at)),
            1 => text.insert(at, text[at]),
            _ => text[at] = self.one_of(br#"{}[]:,"\ue0-1.+tfn x"#),
        }
    }
}
