//! The server's JSON set in lines: every name, number and order as it came.

/// Sets a JSON text in lines. What is no JSON comes out as some text; it was checked before.
pub(crate) fn pretty(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0;
    let mut rest = text.trim();
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '"' => string_end(rest),
            _ => c.len_utf8(),
        };
        let (token, behind) = rest.split_at(taken);
        rest = behind.trim_start();
        match c {
            '{' | '[' if rest.starts_with(['}', ']']) => {
                out.push(c);
                out.push_str(&rest[..1]);
                rest = rest[1..].trim_start();
            }
            '{' | '[' => {
                depth += 1;
                out.push(c);
                line(&mut out, depth);
            }
            '}' | ']' => {
                depth = usize::saturating_sub(depth, 1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => out.push_str(token),
        }
    }
    out.push('\n');
    out
}

/// The elements of a JSON array, as they are written.
pub(crate) fn elements(text: &str) -> Vec<&str> {
    let text = text.trim();
    let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let (mut begin, mut at, mut depth) = (0, 0, 0_usize);
    while let Some(byte) = inner.as_bytes().get(at) {
        match byte {
            b'"' => at += string_end(&inner[at..]) - 1,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                found.push(inner[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    let last = inner[begin..].trim();
    found.extend((!last.is_empty()).then_some(last));
    found
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
}

/// Where the text that begins here ends.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn order_and_numbers_stay_as_they_came() {
        let text = r#"{"b":18446744073709551615,"a":1.50,"c":[ ],"d":{},"e":["x\"],[",null]}"#;
        let set = "{\n  \"b\": 18446744073709551615,\n  \"a\": 1.50,\n  \"c\": [],\n  \"d\": {},\n  \"e\": [\n    \"x\\\"],[\",\n    null\n  ]\n}\n";
        assert_eq!(pretty(text), set);
        assert_eq!(pretty(set), set);
    }

    #[test]
    fn a_list_falls_into_its_rows() {
        assert_eq!(
            elements(r#" [1, "a,]\"b" ,{"c":[2,3]}, null ] "#),
            ["1", r#""a,]\"b""#, r#"{"c":[2,3]}"#, "null"]
        );
        assert_eq!(elements("[ ]"), [""; 0]);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(".*", inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_set_as_others_set_it(value in any_json()) {
            let expected = serde_json::to_string_pretty(&value).expect("JSON") + "\n";
            prop_assert_eq!(pretty(&value.to_string()), expected);
        }

        #[test]
        fn rows_of_a_list_are_found_as_they_stand(rows in prop::collection::vec(any_json(), 0..6)) {
            let written: Vec<String> = rows.iter().map(Value::to_string).collect();
            let text = Value::from(rows).to_string();
            prop_assert_eq!(elements(&text), written);
        }
    }
}
