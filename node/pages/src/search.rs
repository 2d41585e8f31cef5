//! Finds the page for a search text: a block number, a hash, an address in hexadecimal or Bech32 form, or a proposal.

use crate::{error::PageError, frame, shared::Pages, text};
use alloy_primitives::B256;
use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header::LOCATION},
};
use keys::{parse_address, parse_address_in_any_case};
use maud::html;
use pipeline::Found;
use std::sync::Arc;

/// Maximum length of a search text in bytes. The longest valid text is a Bech32 address of 90 characters.
const MAX_TEXT_BYTES: usize = 200;
/// Number of digits of the highest block number.
const MAX_DECIMAL_DIGITS: usize = 20;
/// The words before the number of a proposal.
const PROPOSAL_WORDS: [&str; 2] = ["proposal", "#"];

/// Returns the path of the page for the parameter `q` of a query.
pub(crate) async fn target(pages: &Arc<Pages>, query: &str) -> Result<String, PageError> {
    let parameter = query.split('&').find_map(|pair| pair.strip_prefix("q=")).unwrap_or_default();
    let text = decoded(parameter);
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_TEXT_BYTES {
        let reason = "Enter a block number, a hash, an address or \"proposal 1\".";
        return Err(PageError::Invalid(reason.to_owned()));
    }
    if let Some(path) = number_path(text) {
        return Ok(path);
    }
    if let Ok(hash) = text.parse::<B256>() {
        return hash_path(pages, hash).await;
    }
    let prefix = &pages.context.spec.bech32_prefix;
    match parse_address_in_any_case(text, prefix) {
        Ok(address) if parse_address(text, prefix).is_ok() => Ok(format!("/address/{address}")),
        // The page of the address says that the checksum is wrong.
        Ok(_) => Ok(format!("/address/{text}")),
        Err(error) => Err(PageError::Invalid(format!(
            "This is not a block number, a hash, an address or a proposal ({error})."
        ))),
    }
}

/// Returns the path for a block number, decimal or hexadecimal, or for a proposal.
fn number_path(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    for word in PROPOSAL_WORDS {
        let number = lower.strip_prefix(word).map(str::trim);
        if let Some(id) = number.and_then(|number| number.parse::<u64>().ok()) {
            return Some(format!("/governance/{id}"));
        }
    }
    block_number(text).map(|number| format!("/block/{number}"))
}

/// Parses a block number: decimal digits with or without commas between groups of three, or hexadecimal digits after
/// 0x. More than [`MAX_DECIMAL_DIGITS`] decimal digits are not a number: they may be an address without 0x.
pub(crate) fn block_number(text: &str) -> Option<u64> {
    let is_hex = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16)
            .ok()
            .filter(|_| is_hex(digits) && digits.len() <= 16);
    }
    let plain = text.replace(',', "");
    if plain.len() > MAX_DECIMAL_DIGITS || !plain.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = plain.parse().ok()?;
    (plain == text || text::grouped(number) == text).then_some(number)
}

/// Returns the path for the hash of a block or of a transaction.
async fn hash_path(pages: &Arc<Pages>, hash: B256) -> Result<String, PageError> {
    let view = pages.context.published.load();
    let known = pages.workers.run(move || {
        let block = view.block_number(hash)?;
        Ok((block, view.tx_location(hash)?.is_some()))
    });
    match known.await? {
        (Some(number), _) => Ok(format!("/block/{number}")),
        (None, true) => Ok(format!("/tx/{hash}")),
        (None, false) => match pages.context.pool.transaction(hash).await {
            Ok(Found::Pooled(_)) => Ok(format!("/tx/{hash}")),
            Ok(Found::NotPooled { .. }) => Err(PageError::NotFound(format!(
                "No block and no transaction of this chain has the hash {hash}."
            ))),
            Err(error) => Err(PageError::Busy(error.to_string())),
        },
    }
}

/// Decodes a text as forms send it: percent-encoded (RFC 3986, section 2.1), with plus signs for spaces.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        let digits = rest.as_slice();
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => match digits.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()) {
                Some(pair) if u8::from_str_radix(pair, 16).is_ok() => {
                    bytes.extend(u8::from_str_radix(pair, 16));
                    rest.nth(1);
                }
                _ => bytes.push(byte),
            },
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns a response that redirects to another page.
pub(crate) fn redirect(path: &str) -> Response<Body> {
    let mut response = frame::respond(StatusCode::SEE_OTHER, html! { a href=(path) { (path) } });
    if let Ok(value) = HeaderValue::from_str(path) {
        response.headers_mut().insert(LOCATION, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_proposals_are_recognised() {
        for (text, path) in [
            ("0", Some("/block/0")),
            ("1,234", Some("/block/1234")),
            ("0x10", Some("/block/16")),
            ("18446744073709551615", Some("/block/18446744073709551615")),
            ("18446744073709551616", None),
            ("-1", None),
            ("proposal 7", Some("/governance/7")),
            ("#7", Some("/governance/7")),
            ("proposal", None),
            ("0x", None),
            ("0x+5", None),
            ("+5", None),
            ("1,2,3", None),
            ("1_234", None),
            ("0000000000000000000000000000000000000000", None),
        ] {
            assert_eq!(number_path(text).as_deref(), path, "{text}");
        }
    }

    #[test]
    fn percent_encoding_is_decoded() {
        for (text, plain) in [
            ("a%20b+c", "a b c"),
            ("%", "%"),
            ("%4", "%4"),
            ("%zz", "%zz"),
            ("%3Cscript%3E", "<script>"),
            ("%C3%A9", "\u{e9}"),
            ("%FF", "\u{fffd}"),
        ] {
            assert_eq!(decoded(text), plain);
        }
    }
}
