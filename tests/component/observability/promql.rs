//! A reader for as much of PromQL as is needed to find the metrics and labels that an expression names.

/// What an expression names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// Every selector.
    pub(super) selectors: Vec<Selector>,
    /// Every label that it groups or joins by.
    pub(super) labels: Vec<String>,
}

/// One metric and the labels that select its series.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selector {
    pub(super) metric: String,
    pub(super) matchers: Vec<Matcher>,
}

/// One label in braces.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Matcher {
    pub(super) label: String,
    pub(super) operator: String,
    pub(super) value: String,
}

/// Words that are followed by labels in parentheses.
const GROUPING: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];

/// Words of the language. A function that is missing here is read as a metric, and reported as unknown.
const WORDS: [&str; 18] = [
    "absent",
    "and",
    "bool",
    "changes",
    "count",
    "histogram_quantile",
    "increase",
    "max",
    "max_over_time",
    "min",
    "offset",
    "or",
    "rate",
    "scalar",
    "sum",
    "time",
    "unless",
    "vector",
];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

/// Reads an expression; an error names the part that is not understood.
pub(super) fn named(expression: &str) -> Result<Named, String> {
    let mut tokens = tokens(expression)?.into_iter().peekable();
    let mut named = Named::default();
    while let Some(token) = tokens.next() {
        let Token::Word(word) = token else { continue };
        if GROUPING.contains(&word.as_str()) {
            if tokens.next_if_eq(&Token::Sign('(')).is_none() {
                return Err(format!("{word} is not followed by labels"));
            }
            for token in tokens.by_ref() {
                match token {
                    Token::Word(label) => named.labels.push(label),
                    Token::Sign(',') => {}
                    Token::Sign(')') => break,
                    other => return Err(format!("{other:?} among the labels of {word}")),
                }
            }
        } else if !WORDS.contains(&word.as_str()) {
            let mut matchers = Vec::new();
            if tokens.next_if_eq(&Token::Sign('{')).is_some() {
                let inside = tokens.by_ref().take_while(|token| *token != Token::Sign('}'));
                let inside: Vec<Token> = inside.collect();
                for matcher in inside.split(|token| *token == Token::Sign(',')) {
                    matchers.push(matched(matcher).ok_or_else(|| format!("{matcher:?} in the braces of {word}"))?);
                }
            }
            named.selectors.push(Selector { metric: word, matchers });
        }
    }
    Ok(named)
}

fn matched(tokens: &[Token]) -> Option<Matcher> {
    let [Token::Word(label), signs @ .., Token::Text(value)] = tokens else { return None };
    let mut operator = String::new();
    for sign in signs {
        let Token::Sign(sign) = sign else { return None };
        operator.push(*sign);
    }
    let is_known = ["=", "!=", "=~", "!~"].contains(&operator.as_str());
    is_known.then(|| Matcher { label: label.clone(), operator, value: value.clone() })
}

/// Words, texts and signs; numbers and ranges in brackets are left out, because they name nothing.
fn tokens(expression: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.' | '$');
        let end = |text: &str, is_in: &dyn Fn(char) -> bool| text.find(|c| !is_in(c)).unwrap_or(text.len());
        let length = match first {
            '"' => {
                let length = rest[1..].find('"').ok_or_else(|| format!("a text without an end: {rest}"))?;
                tokens.push(Token::Text(rest[1..=length].to_owned()));
                length + 2
            }
            '[' => rest.find(']').ok_or_else(|| format!("a range without an end: {rest}"))? + 1,
            '0'..='9' => end(rest, &is_word),
            first if is_word(first) => {
                let length = end(rest, &is_word);
                tokens.push(Token::Word(rest[..length].to_owned()));
                length
            }
            first => {
                if !first.is_whitespace() {
                    tokens.push(Token::Sign(first));
                }
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    Ok(tokens)
}

#[test]
fn an_expression_is_read_and_everything_that_it_names_is_found() {
    let read = named(
        "sum by (namespace, source) (rate(topoloom_a_total{outcome!=\"ok\", source=~\"$source\"}[20m])) > 2 unless \
         on (source) time() - topoloom_b{} offset 3h",
    );
    // Braces with nothing inside are a mistake of the author.
    assert!(read.unwrap_err().contains("topoloom_b"));
    let read = named("sum by (a, b) (rate(x_total{c!=\"ok\", d=~\"1|2\"}[5m])) / on (e) y > 0.1").unwrap();
    let matcher = |label: &str, operator: &str, value: &str| Matcher {
        label: label.to_owned(),
        operator: operator.to_owned(),
        value: value.to_owned(),
    };
    assert_eq!(read.labels, ["a", "b", "e"]);
    assert_eq!(
        read.selectors,
        [
            Selector {
                metric: "x_total".to_owned(),
                matchers: vec![matcher("c", "!=", "ok"), matcher("d", "=~", "1|2")]
            },
            Selector { metric: "y".to_owned(), matchers: vec![] },
        ]
    );
    assert!(named("a{b=\"c}").is_err() && named("rate(a[5m").is_err() && named("sum by a").is_err());
}
