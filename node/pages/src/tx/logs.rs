//! Renders the logs of a transaction, decoded if their event is well known.

use super::input;
use crate::{signatures, table, text};
use alloy_primitives::{B256, Log};
use maud::{Markup, html};
use storage::StoredReceipt;

/// Maximum number of logs that are shown.
const MAX_LOGS: usize = 100;
/// Maximum number of bytes of the data of a log that are shown.
const MAX_DATA_BYTES: usize = 512;
/// Number of bytes of an ABI word.
const WORD_BYTES: usize = 32;

pub(super) fn section(receipt: &StoredReceipt) -> Markup {
    let (logs, left_out) = (&receipt.logs, receipt.logs.len().saturating_sub(MAX_LOGS));
    html! {
        @if !logs.is_empty() {
            h2 { "Logs" }
            @for (position, log) in logs.iter().take(MAX_LOGS).enumerate() {
                section {
                    p { "Log " (position) " of " (table::address_link(log.address)) }
                    (contents(log))
                }
            }
            @if left_out > 0 { p { "The page does not show " (text::grouped(left_out as u64)) " more." } }
        }
    }
}

fn contents(log: &Log) -> Markup {
    let topics = log.topics();
    let known = topics.first().and_then(|topic| signatures::event(*topic));
    let Some(signature) = known else { return raw(topics, &log.data.data) };
    // Contracts differ from the standards in the indexed arguments. The number of topics is that of this log.
    let indexed = topics.len().saturating_sub(1);
    let words = signature.arguments().enumerate().map(|(position, (name, kind))| {
        let word = match topics.get(position + 1).filter(|_| position < indexed) {
            Some(topic) => Some(topic.as_slice()),
            None => {
                let start = (position - indexed) * WORD_BYTES;
                log.data.data.get(start..start + WORD_BYTES)
            }
        };
        (name, kind, word)
    });
    html! {
        p { "Event " code { (signature.text()) } }
        (input::values(words))
    }
}

fn raw(topics: &[B256], data: &[u8]) -> Markup {
    html! {
        dl {
            @for (position, topic) in topics.iter().enumerate() {
                div { dt { "Topic " (position) } dd { code { (topic) } } }
            }
            @if !data.is_empty() {
                div { dt { "Data" } dd { code { (text::hex_of(data, MAX_DATA_BYTES)) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::{Address, Bytes, LogData, b256};

    fn shown(topics: Vec<B256>, data: &[u8]) -> String {
        let data = LogData::new_unchecked(topics, Bytes::copy_from_slice(data));
        contents(&Log { address: Address::ZERO, data }).into_string()
    }

    #[test]
    fn events_are_decoded_with_any_number_of_topics() {
        let transfer = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
        let party = B256::with_last_byte(7);
        let amount = B256::with_last_byte(9);
        // ERC-20 has the amount in the data, and ERC-721 the token in a topic.
        let erc20 = shown(vec![transfer, party, party], amount.as_slice());
        let erc721 = shown(vec![transfer, party, party, amount], &[]);
        for text in [&erc20, &erc721] {
            assert!(text.contains("value (uint256)") && text.contains("<dd>9</dd>"), "{text}");
        }
        assert!(shown(vec![transfer], &[]).contains("missing"));
        assert!(shown(vec![party], &[1]).contains("Topic 0"));
        assert!(shown(Vec::new(), &[1]).contains("0x01"));
    }
}
