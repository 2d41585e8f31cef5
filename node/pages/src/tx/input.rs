//! Renders the input of a transaction, decoded if its function is well known.

use crate::{signatures, table, text};
use alloy_primitives::{Address, U256};
use maud::{Markup, html};

/// Maximum number of bytes of an input that are shown.
const MAX_INPUT_BYTES: usize = 4096;
/// Number of bytes of an ABI word, which encodes an argument of fixed size.
const WORD_BYTES: usize = 32;

pub(super) fn section(input: &[u8], creates: bool) -> Markup {
    html! {
        @if !input.is_empty() {
            h2 { @if creates { "Code of the creation" } @else { "Input" } }
            @if !creates { (call(input)) }
            pre tabindex="0" { (text::hex_of(input, MAX_INPUT_BYTES)) }
        }
    }
}

fn call(input: &[u8]) -> Markup {
    let known = input.split_first_chunk::<4>().and_then(|(selector, arguments)| {
        signatures::function(*selector).map(|signature| (signature, arguments))
    });
    let Some((signature, arguments)) = known else {
        return html! { p.soft { "The function is not one that this node knows." } };
    };
    let rows = signature.arguments().enumerate().map(|(position, (name, kind))| {
        let start = position * WORD_BYTES;
        (name, kind, arguments.get(start..start + WORD_BYTES))
    });
    html! {
        p { "Function " code { (signature.text()) } }
        (values(rows))
    }
}

/// Renders a table of arguments, given by name, type and word.
pub(super) fn values<'a>(
    rows: impl Iterator<Item = (&'a str, &'a str, Option<&'a [u8]>)>,
) -> Markup {
    let rows: Vec<_> = rows.collect();
    html! {
        @if !rows.is_empty() {
            dl {
                @for (name, kind, word) in rows {
                    div { dt { (name) " (" (kind) ")" } dd { (value(kind, word)) } }
                }
            }
        }
    }
}

/// Renders the value of a word (ABI specification, "Formal specification of the encoding").
pub(super) fn value(kind: &str, word: Option<&[u8]>) -> Markup {
    let Some(word) = word.and_then(|word| <&[u8; WORD_BYTES]>::try_from(word).ok()) else {
        return html! { "missing" };
    };
    let number = U256::from_be_bytes(*word);
    match kind {
        "address" if word[..12].iter().all(|byte| *byte == 0) => {
            table::address_link(Address::from_slice(&word[12..]))
        }
        "bool" if number <= U256::from(1) => html! { (!number.is_zero()) },
        kind if kind.starts_with("uint") && !kind.ends_with(']') => html! { (number) },
        "bytes32" => html! { code { (text::hex(word)) } },
        // Arguments of variable size are elsewhere in the input.
        _ if kind.ends_with(']') || kind == "bytes" || kind == "string" => {
            html! { "at byte " (number) " of the arguments" }
        }
        _ => html! { code { (text::hex(word)) } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_shown_by_type() {
        let mut word = [0; WORD_BYTES];
        word[31] = 1;
        let shown = |kind: &str, word: &[u8]| value(kind, Some(word)).into_string();
        assert!(
            shown("address", &word).contains("/address/0x0000000000000000000000000000000000000001")
        );
        assert_eq!(shown("bool", &word), "true");
        assert_eq!(shown("uint256", &word), "1");
        assert!(shown("uint256[]", &word).contains("at byte 1"));
        assert!(shown("bytes32", &word).contains("0x00"));
        assert_eq!(shown("uint256", &word[1..]), "missing");
        // Not an address.
        assert!(!shown("address", &[0xff; WORD_BYTES]).contains("href"));
    }

    #[test]
    fn ten_megabytes_of_input_are_shortened() {
        let mut input = vec![0xff; 10 << 20];
        for is_known in [false, true] {
            for creates in [false, true] {
                let shown = section(&input, creates).into_string();
                assert!(shown.len() < 4 * MAX_INPUT_BYTES, "{is_known} {creates}: {}", shown.len());
                assert!(shown.contains(" more bytes)"), "{is_known} {creates}");
            }
            input[..4].copy_from_slice(&[0xa9, 0x05, 0x9c, 0xbb]);
        }
    }

    #[test]
    fn truncated_input_does_not_fail() {
        for length in 0..=100 {
            let mut input = vec![0; length];
            for (at, byte) in [0xa9, 0x05, 0x9c, 0xbb].into_iter().enumerate() {
                if at < length {
                    input[at] = byte;
                }
            }
            assert!(length == 0 || section(&input, false).into_string().contains("<pre"));
        }
    }
}
