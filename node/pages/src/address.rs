//! Renders the page of an address: its account, its transactions and the logs of its code.

use crate::{
    error::PageError,
    frame::{Page, terms},
    reading::Reading,
    table::{self, TxRow},
    text,
};
use alloy_primitives::{Address, B256};
use keys::{bech32, parse_address, parse_address_in_any_case};
use maud::{Markup, html};
use modules::decorator::is_delegation;
use state::{
    Appearances, Emissions, parties,
    stored::{self, StoredBlock},
};
use storage::{ReceiptOutcome, StateRead};

/// Maximum number of transactions on a page.
const TXS_PER_PAGE: usize = 25;
/// A page ends when it has at least this number of logs. One transaction can add this number to a page that is not full.
const LOGS_PER_PAGE: usize = 25;
/// Number of searched transactions after which a page ends with a link to continue. A block producer's account changes
/// in every block, and few of these blocks have one of its transactions.
const MAX_SEARCHED_TXS: usize = 20_000;
/// Maximum number of blocks that are read for a page.
const MAX_BLOCKS: usize = 200;
/// Maximum number of bytes of code that are shown.
const MAX_CODE_BYTES: usize = 1_024;
/// Number of bytes before the address in the code of a delegated account (EIP-7702).
const DELEGATION_PREFIX_BYTES: usize = 3;

/// A position on the chain. A page lists what is before it, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    block: u64,
    /// Transactions of the block from this index on are after the position.
    index: usize,
}

/// Renders the page of an address in hexadecimal or Bech32 form.
pub(crate) fn page(reading: &Reading, address: &str) -> Result<Page, PageError> {
    let (text, prefix) = (address, &reading.spec().bech32_prefix);
    let address = parse_address_in_any_case(text, prefix)
        .map_err(|error| PageError::Invalid(format!("This is not an address: {error}.")))?;
    let has_wrong_checksum = parse_address(text, prefix).is_err();
    let contents = html! {
        @if has_wrong_checksum {
            p.bad {
                "The capital letters of the address in the path do not match its checksum (EIP-55). Check each digit."
            }
        }
        (account(reading, address)?)
        @if reading.parameter("logs").is_some() { (logs(reading, address)?) }
        @else { (transactions(reading, address)?) }
    };
    Ok(Page::new(format!("Address {address}"), contents))
}

fn account(reading: &Reading, address: Address) -> Result<Markup, PageError> {
    let state = reading.view.state.reader()?;
    let account = state.account(address)?.unwrap_or_default();
    let code = state.code(account.code_hash)?;
    let mut rows = vec![
        ("Hex form", html! { code { (address) } }),
        ("Bech32 form", html! { code { (bech32(&reading.spec().bech32_prefix, address)) } }),
        ("Balance", html! { (text::amount(account.balance)) " " (reading.symbol()) }),
        ("Nonce", html! { (text::grouped(account.nonce)) }),
    ];
    if is_delegation(&code) {
        let target = Address::from_slice(&code[DELEGATION_PREFIX_BYTES..]);
        rows.push(("Delegates to", table::address_link(target)));
    } else if !code.is_empty() {
        rows.push(("Code", html! {
            details {
                summary { (text::count(code.len() as u64, "byte")) ", hash " code { (text::short_hash(account.code_hash)) } }
                pre tabindex="0" { (text::hex_of(&code, MAX_CODE_BYTES)) }
            }
        }));
    }
    Ok(html! {
        (terms(&rows))
        nav.pages aria-label="Parts of this page" {
            a href={ "/address/" (address) } { "Transactions" }
            a href={ "/address/" (address) "?logs=1" } { "Logs" }
        }
    })
}

impl Cursor {
    /// Reads the parameter `before`, such as `1200.5`. Without it, the position is the end of the newest block.
    fn read(reading: &Reading) -> Result<Self, PageError> {
        let head = reading.view.number();
        let Some(text) = reading.parameter("before") else {
            return Ok(Self { block: head, index: usize::MAX });
        };
        let parts = text.split_once('.');
        let parsed =
            parts.and_then(|(block, index)| Some((block.parse().ok()?, index.parse().ok()?)));
        let invalid = || {
            PageError::Invalid(format!(
                "before must be a block number and a transaction index, such as 7.0, got {text}"
            ))
        };
        let (block, index): (u64, usize) = parsed.ok_or_else(invalid)?;
        Ok(Self { block: block.min(head), index })
    }

    /// Returns the position before a block; `None` for block 0.
    fn before_block(number: u64) -> Option<Self> {
        number.checked_sub(1).map(|block| Self { block, index: usize::MAX })
    }
}

fn transactions(reading: &Reading, address: Address) -> Result<Markup, PageError> {
    let (rows, next) = find(reading, address, Cursor::read(reading)?)?;
    Ok(html! {
        h2 { "Transactions" }
        p.soft { "These transactions were sent by this address or to it, or created it. Calls inside transactions are not listed." }
        @if rows.is_empty() { p { "None were found here." } }
        @else { (table::txs(reading, &rows, Some(address))) }
        (older(next, &format!("/address/{address}?before=")))
    })
}

/// Renders a link to the page that continues at a position.
fn older(next: Option<Cursor>, path: &str) -> Markup {
    html! {
        nav.pages aria-label="Pages" {
            @if let Some(Cursor { block, index }) = next {
                a href={ (path) (block) "." (index.min(u32::MAX as usize)) } { "Older" }
            }
        }
    }
}

/// Returns the transactions of an address before a position, newest first, and the position of the next page.
fn find(
    reading: &Reading,
    address: Address,
    from: Cursor,
) -> Result<(Vec<TxRow>, Option<Cursor>), PageError> {
    let appearances = Appearances::of(&reading.view, address)?;
    let blocks = reading.view.blocks()?;
    let (mut rows, mut searched, mut next) = (Vec::new(), 0, Some(from));
    for _ in 0..MAX_BLOCKS {
        let Some(Cursor { block, index: end }) = next else { return Ok((rows, None)) };
        let Some(number) = appearances.up_to(block)? else { return Ok((rows, None)) };
        if rows.len() == TXS_PER_PAGE || searched >= MAX_SEARCHED_TXS {
            break;
        }
        let stored = StoredBlock::read(reading.spec(), &blocks, number)?;
        // Read only when a transaction is found.
        let mut outcomes: Option<Vec<ReceiptOutcome>> = None;
        let end = if number == block { end } else { usize::MAX };
        for mined in parties::of_block(&stored, address, 0..end).rev() {
            let mined = mined?;
            if rows.len() == TXS_PER_PAGE {
                return Ok((rows, Some(Cursor { block: number, index: mined.index + 1 })));
            }
            let outcomes = match &mut outcomes {
                Some(outcomes) => outcomes,
                none => none.insert(stored::outcomes(&blocks, number)?),
            };
            let outcome = outcomes.get(mined.index).copied();
            let outcome = outcome
                .ok_or_else(|| PageError::failed(format!("{} has no receipt", mined.hash)))?;
            rows.push(TxRow::of(&mined, outcome));
        }
        searched += stored.senders.len().min(end);
        next = Cursor::before_block(number);
    }
    Ok((rows, next))
}

/// A log in the list.
struct LogRow {
    block: u64,
    tx: B256,
    event: String,
    data: String,
}

fn logs(reading: &Reading, address: Address) -> Result<Markup, PageError> {
    let (rows, next) = find_logs(reading, address, Cursor::read(reading)?)?;
    Ok(html! {
        h2 { "Logs" }
        p.soft { "Logs that the code of this address emitted." }
        @if rows.is_empty() { p { "None were found here." } }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Logs" {
                table {
                    thead { tr {
                        th scope="col" { "Block" } th scope="col" { "Transaction" }
                        th scope="col" { "Event" } th scope="col" { "Data" }
                    } }
                    tbody {
                        @for row in &rows {
                            tr {
                                td { (table::block_link(row.block)) }
                                td.hash { a href={ "/tx/" (row.tx) } { (text::short_hash(row.tx)) } }
                                td { (row.event) }
                                td.hash.wrap { (row.data) }
                            }
                        }
                    }
                }
            }
        }
        (older(next, &format!("/address/{address}?logs=1&before=")))
    })
}

/// Returns the logs of an address before a position, newest first, and the position of the next page.
fn find_logs(
    reading: &Reading,
    address: Address,
    from: Cursor,
) -> Result<(Vec<LogRow>, Option<Cursor>), PageError> {
    let emissions = Emissions::of(&reading.view, address)?;
    let blocks = reading.view.blocks()?;
    let (mut rows, mut next) = (Vec::new(), Some(from));
    for _ in 0..MAX_BLOCKS {
        let Some(Cursor { block, index: end }) = next else { return Ok((rows, None)) };
        let Some(number) = emissions.up_to(block)? else { return Ok((rows, None)) };
        let receipts = stored::receipts(&blocks, number)?;
        let end = if number == block { end } else { usize::MAX };
        for index in (0..receipts.len().min(end)).rev() {
            let mut own =
                receipts[index].logs.iter().filter(|log| log.address == address).peekable();
            if own.peek().is_none() {
                continue;
            }
            if rows.len() >= LOGS_PER_PAGE {
                return Ok((rows, Some(Cursor { block: number, index: index + 1 })));
            }
            let raw = stored::raw_tx(&blocks, number, index)?.unwrap_or_default();
            let tx = alloy_primitives::keccak256(&raw);
            // A transaction may have more logs than are listed here. The page of the transaction shows more.
            rows.extend(own.take(LOGS_PER_PAGE).map(|log| log_row(number, tx, log)));
        }
        next = Cursor::before_block(number);
    }
    Ok((rows, next))
}

fn log_row(block: u64, tx: B256, log: &alloy_primitives::Log) -> LogRow {
    let topic = log.topics().first().copied();
    let known = topic.and_then(crate::signatures::event);
    let event = match (known, topic) {
        (Some(signature), _) => signature.text().to_owned(),
        (None, Some(topic)) => text::short_hash(topic),
        (None, None) => "anonymous".to_owned(),
    };
    LogRow { block, tx, event, data: text::hex_of(&log.data.data, 64) }
}
