use super::*;

/// Reads one byte at a time, so that every boundary falls everywhere.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.0.len().min(1);
        buffer[..length].copy_from_slice(&self.0[..length]);
        self.0 = &self.0[length..];
        Ok(length)
    }
}

fn check(document: &str, expected: Result<&[&str], &str>) {
    read(Slow(document.as_bytes()), document, expected);
    read(document.as_bytes(), document, expected);
}

fn read(reader: impl Read, document: &str, expected: Result<&[&str], &str>) {
    let mut elements = Elements::new(reader, "data");
    let mut seen = Vec::new();
    let result = loop {
        match elements.next() {
            Ok(Some(text)) => seen.push(String::from_utf8(text.to_vec()).unwrap()),
            Ok(None) => break Ok(seen),
            Err(error) => break Err(error.to_string()),
        }
    };
    let expected = expected.map(|list| list.iter().map(ToString::to_string).collect()).map_err(str::to_owned);
    assert_eq!(result, expected, "{document}");
}

#[test]
fn both_forms_of_a_list_are_read() {
    check(r#" [ {"a":[1,{"b":"]}"}]} , "x\"y", 12 ,NaN] "#, Ok(&[r#"{"a":[1,{"b":"]}"}]}"#, r#""x\"y""#, "12", "NaN"]));
    check(r#"{"x":{"data":[7]},"y":"data","data" : [1,[2]],"z":1}"#, Ok(&["1", "[2]"]));
    check("[]", Ok(&[]));
}

#[test]
fn a_broken_document_is_an_error() {
    check("[1,2", Err("the document ends in the middle"));
    check(r#"[{"a":1"#, Err("the document ends in the middle"));
    check("", Err("the document ends in the middle"));
    check("<html>", Err("the document is neither a JSON list nor an object"));
    check("[] []", Err("something follows the end of the document"));
    check(r#"{"data":[1]"#, Err("the document ends in the middle"));
}

#[test]
fn an_element_on_the_edge_of_a_chunk_is_one_element() {
    let objects: Vec<String> =
        (0..2000).map(|n| format!(r#"{{"n": {n}, "pad": "{}\\"}}"#, "}".repeat(n % 120))).collect();
    let expected: Vec<&str> = objects.iter().map(String::as_str).collect();
    let document = format!("[{}]", objects.join(" ,\n        "));
    assert!(document.len() > 2 * CHUNK);
    read(document.as_bytes(), "", Ok(&expected));
}

#[test]
fn members_come_once_wherever_the_chunks_end() {
    let document = r#"{"data": [{"a": 1, "b": {"c": "]}"}}, 7, {"a" 2}, {"a": "\\\"}"}, {}, {"x": NaN}], "n": 5}"#;
    let mut seen = Vec::new();
    let mut elements = Elements::new(Slow(document.as_bytes()), "data");
    let read = |members: &mut Members<'_>| {
        let mut object = String::new();
        for member in members {
            let Ok((key, value)) = member else { return false };
            object += &format!("{}={} ", String::from_utf8_lossy(key), String::from_utf8_lossy(value.bytes()));
        }
        seen.push(object);
        true
    };
    let mut read = read;
    let mut good = Vec::new();
    while let Some(is_good) = elements.next_members(&mut read).unwrap() {
        good.push(is_good);
    }
    assert_eq!(elements.envelope(), br#"{"data": null, "n": 5}"#);
    assert_eq!(good, [true, false, false, true, true, true]);
    assert_eq!(seen, [r#"a=1 b={"c": "]}"} "#, r#"a="\\\"}" "#, "", "x=NaN "]);
    let mut elements = Elements::new(&br#"[{"a": 1"#[..], "");
    assert_eq!(elements.next_members(|_| ()).unwrap_err().to_string(), "the document ends in the middle");
    let mut elements = Elements::new(b"[{\"a\": [".chain(io::repeat(b'1')), "");
    let error = elements.next_members(|_| ()).unwrap_err().to_string();
    assert_eq!(error, "an element of the list is larger than 4 MiB");
}

#[test]
fn what_never_ends_is_refused() {
    for (begin, message) in [
        (&b"[{"[..], "an element of the list is larger than 4 MiB"),
        (b"[\"", "an element of the list is larger than 4 MiB"),
        (b"[1", "an element of the list is larger than 4 MiB"),
        (b"{\"", TOO_MUCH_AROUND),
        (b"{\"data\" ", TOO_MUCH_AROUND),
    ] {
        let filler = if begin.ends_with(b" ") { b' ' } else { b'1' };
        let mut elements = Elements::new(begin.chain(io::repeat(filler)), "data");
        assert_eq!(elements.next().map(|_| ()).unwrap_err().to_string(), message);
    }
}

#[test]
fn an_object_without_the_list_says_so() {
    let mut elements = Elements::new(&b"{}"[..], "data");
    assert!(elements.next().unwrap().is_none());
    assert!(!elements.found());
}

/// Elements with their keys, then the envelope.
fn several(document: &str) -> (Vec<String>, String) {
    let mut elements = Elements::several(Slow(document.as_bytes()), &["a", "b"]);
    let mut seen = Vec::new();
    while let Some(text) = elements.next().unwrap() {
        let text = String::from_utf8(text.to_vec()).unwrap();
        seen.push(format!("{} {text}", elements.key()));
    }
    (seen, String::from_utf8(elements.envelope().to_vec()).unwrap())
}

#[test]
fn several_lists_of_one_object_are_read_in_any_order() {
    let (seen, envelope) = several(r#"{"x":{"a":[0]},"b":[1,{"a":[2]}],"y":"a","a":[3],"z":[4]}"#);
    assert_eq!(seen, ["b 1", r#"b {"a":[2]}"#, "a 3"]);
    assert_eq!(envelope, r#"{"x":{"a":[0]},"b":null,"y":"a","a":null,"z":[4]}"#);
    assert_eq!(several(r#"{"b":[],"a":[]}"#), (vec![], r#"{"b":null,"a":null}"#.to_owned()));
    assert_eq!(several("[7]").0, ["a 7"]);
}

#[test]
fn a_list_that_is_there_twice_is_read_once() {
    let (seen, envelope) = several(r#"{"a":[1],"a":[2],"b":[3]}"#);
    assert_eq!(seen, ["a 1", "b 3"]);
    assert_eq!(envelope, r#"{"a":null,"a":[2],"b":null}"#);
}

#[test]
fn which_list_was_there_is_known() {
    let mut elements = Elements::several(&br#"{"b":[]}"#[..], &["a", "b"]);
    assert!(elements.next().unwrap().is_none());
    assert_eq!((elements.found(), elements.found_key("a"), elements.found_key("b")), (true, false, true));
}

#[test]
fn an_endless_number_ends_the_reading() {
    let mut elements = Elements::new(io::repeat(b'1'), "data");
    assert!(elements.next().is_err());
    let mut elements = Elements::new((&b"["[..]).chain(io::repeat(b'1')), "data");
    assert_eq!(elements.next().unwrap_err().to_string(), TOO_LARGE);
}
