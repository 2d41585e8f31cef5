//! Formats YAML in the style of the Cosmos tools: keys are in alphabetical order, and strings are in double
//! quotes if they could be read as other types or contain characters that may have a meaning in YAML.

use serde_json::Value;
use std::fmt::Write;

/// Formats a value as a document with a final line break.
pub(in crate::cli) fn text(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block(value, 0, &mut out),
        Value::Array(list) if !list.is_empty() => block(value, 0, &mut out),
        scalar => {
            out.push_str(&inline(scalar));
            out.push('\n');
        }
    }
    out
}

/// Writes a non-empty map or list, indented by `depth` steps of two spaces.
fn block(value: &Value, depth: usize, out: &mut String) {
    let margin = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in entries {
                let _ = write!(out, "{margin}{}:", scalar(key));
                below(value, depth, out);
            }
        }
        Value::Array(list) => {
            for value in list {
                if !nests(value) {
                    let _ = writeln!(out, "{margin}- {}", inline(value));
                    continue;
                }
                // The first line of an item follows the dash.
                let mut item = String::new();
                block(value, depth + 1, &mut item);
                let _ = write!(out, "{margin}- {}", &item[2 * (depth + 1)..]);
            }
        }
        _ => {}
    }
}

/// Writes a value after its key.
fn below(value: &Value, depth: usize, out: &mut String) {
    if nests(value) {
        out.push('\n');
        // A list is aligned with its key, and a map is indented.
        block(value, depth + usize::from(value.is_object()), out);
    } else {
        let _ = writeln!(out, " {}", inline(value));
    }
}

/// Returns whether a value is a non-empty map or list, which starts on a line of its own.
fn nests(value: &Value) -> bool {
    value.as_object().is_some_and(|map| !map.is_empty())
        || value.as_array().is_some_and(|list| !list.is_empty())
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// Formats a string, in quotes if it could be read as another type or contains a character that may have a meaning.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let number = text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./=+".contains(&byte));
    if text.is_empty() || number || WORDS.contains(&text.to_ascii_lowercase().as_str()) || !plain {
        return Value::from(text).to_string();
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nested_values_are_indented_and_keys_are_sorted() {
        let value = json!({
            "b": { "x": "1", "a": null, "t": "true", "s": "it's: so" },
            "a": [{ "k": "v", "l": ["p", "7"] }, "q"],
            "empty": [], "none": {}, "number": 8,
        });
        let expected = "a:\n- k: v\n  l:\n  - p\n  - \"7\"\n- q\nb:\n  a: null\n  s: \"it's: so\"\n  t: \"true\"\n  x: \"1\"\nempty: []\nnone: {}\nnumber: 8\n";
        assert_eq!(text(&value), expected);
        assert_eq!(text(&json!("x")), "x\n");
    }
}
