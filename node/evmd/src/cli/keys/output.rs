//! Prints keys as a YAML list or as JSON.

use super::Common;
use keys::{Bech32Kind, keyring::Record};
use serde::Serialize;
use std::io::Write;
use zeroize::Zeroizing;

/// Buffer size for a key in JSON, in bytes. If the buffer grew, a copy of the mnemonic would remain in memory.
const MAX_KEY_BYTES: usize = 8192;

/// A key in the form in which it is printed.
#[derive(Debug, Serialize)]
pub(super) struct KeyOutput {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    address: String,
    pubkey: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mnemonic: Option<Zeroizing<String>>,
}

impl KeyOutput {
    pub(super) fn new(record: &Record, kind: Bech32Kind, prefix: &str) -> Self {
        Self {
            name: record.name.clone(),
            kind: record.kind(),
            address: kind.address(prefix, record.address()),
            pubkey: record.public_key.to_json(),
            mnemonic: None,
        }
    }

    pub(super) fn with_mnemonic(mut self, words: Option<Zeroizing<String>>) -> Self {
        self.mnemonic = words;
        self
    }

    fn text(&self) -> String {
        format!(
            "- address: {}\n  name: {}\n  pubkey: {}\n  type: {}\n",
            self.address,
            yaml(&self.name),
            quoted(&self.pubkey),
            self.kind
        )
    }
}

/// Prints one key. In JSON, it is an object.
pub(super) fn print_one(common: &Common, key: &KeyOutput) -> anyhow::Result<()> {
    let mut out = crate::cli::stdout();
    if common.json() {
        let mut text = Zeroizing::new(Vec::with_capacity(MAX_KEY_BYTES));
        serde_json::to_writer(&mut *text, key)?;
        text.push(b'\n');
        out.write_all(&text)?;
    } else {
        out.write_all(key.text().as_bytes())?;
    }
    Ok(())
}

/// Prints keys. In JSON, they are an array.
pub(super) fn print_list(common: &Common, keys: &[KeyOutput]) -> anyhow::Result<()> {
    let mut out = crate::cli::stdout();
    if common.json() {
        writeln!(out, "{}", serde_json::to_string(keys)?)?;
    } else if keys.is_empty() {
        writeln!(out, "No records were found in keyring")?;
    } else {
        for key in keys {
            out.write_all(key.text().as_bytes())?;
        }
    }
    Ok(())
}

/// Formats text as a YAML scalar: plain if that is unambiguous, otherwise in single quotes.
pub(super) fn yaml(text: &str) -> String {
    const WORDS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan"];
    let plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { quoted(text) }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::yaml;

    #[test]
    fn names_that_yaml_would_not_read_as_strings_are_quoted() {
        assert_eq!(yaml("alice-1.x_y"), "alice-1.x_y");
        assert_eq!(yaml("1e5"), "'1e5'");
        assert_eq!(yaml("No"), "'No'");
        assert_eq!(yaml("it's: so"), "'it''s: so'");
    }
}
