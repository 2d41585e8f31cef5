//! Renders the pages of transactions: mined ones, and those in the pool.

mod execution;
mod input;
mod logs;

use crate::{
    error::PageError,
    frame::{Page, terms},
    reading::{Reading, symbol},
    shared::Pages,
    table, text,
};
use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, B256, U256};
use maud::{Markup, html};
use pipeline::Found;
use server::interrupt::Deadline;
use state::stored::{self, MinedTx, OneTx};
use std::sync::Arc;
use storage::{ReceiptOutcome, StoredReceipt};
use transactions::{RecoveredTx, Transaction, cosmos};

/// Maximum number of bytes of a transaction that are shown in hex.
const MAX_RAW_BYTES: usize = 4096;

/// A term and its value.
type Row = (&'static str, Markup);

/// Renders the page of a mined transaction; returns `None` if no block has it.
pub(crate) fn mined(reading: &Reading, hash: B256) -> Result<Option<Page>, PageError> {
    let Some((number, index)) = reading.view.tx_location(hash)? else { return Ok(None) };
    let blocks = reading.view.blocks()?;
    let found = OneTx::read(reading.spec(), &blocks, number, index)?;
    let mined = found.mined();
    let receipts = stored::receipts(&blocks, number)?;
    let receipt = receipts.get(mined.index);
    let receipt = receipt.ok_or_else(|| PageError::failed(format!("{hash} has no receipt")))?;
    let before = mined.index.checked_sub(1).and_then(|before| receipts.get(before));
    let gas_used =
        receipt.cumulative_gas_used - before.map_or(0, |before| before.cumulative_gas_used);
    let contents = html! {
        (terms(&summary(reading, &mined, receipt)))
        h2 { "Fee" }
        (terms(&fee(&mined, gas_used, &reading.symbol())))
        @if mined.cosmos.is_none() {
            section {
                h2 { "Execution" }
                p {
                    "The node executes the transaction again to show calls, state changes and the refund. "
                    a href={ "/tx/" (mined.hash) "/execution" } data-insert { "Execute it again" }
                }
            }
        }
        (input::section(mined.tx.input(), mined.to().is_none()))
        (logs::section(receipt))
        (raw(&mined.raw))
    };
    Ok(Some(Page::new("Transaction", contents)))
}

fn summary(reading: &Reading, mined: &MinedTx<'_>, receipt: &StoredReceipt) -> Vec<Row> {
    let header = &mined.block.header;
    let confirmations = reading.view.number() - header.number;
    let mut rows = vec![
        ("Hash", html! { code { (mined.hash) } }),
        ("Status", status(receipt)),
        (
            "Block",
            html! {
                (table::block_link(header.number)) ", position " (mined.index) ", "
                (text::count(confirmations, "confirmation"))
            },
        ),
        ("Time", html! { (text::time(header.timestamp)) }),
    ];
    let created = mined.created().filter(|_| receipt.outcome != ReceiptOutcome::Status(false));
    rows.extend(parties(mined.sender, mined.to(), created));
    rows.extend(fields(&mined.tx, mined.cosmos.is_some(), &reading.symbol()));
    rows
}

fn status(receipt: &StoredReceipt) -> Markup {
    match receipt.outcome {
        ReceiptOutcome::Status(true) => html! { span.good { "Success" } },
        ReceiptOutcome::Status(false) => html! { span.bad { "Failed" } },
        ReceiptOutcome::PostState(root) => html! { "State root " code { (root) } },
    }
}

fn parties(from: Address, to: Option<Address>, created: Option<Address>) -> Vec<Row> {
    let mut rows = vec![("From", table::address_link(from))];
    match (to, created) {
        (Some(to), _) => rows.push(("To", table::address_link(to))),
        (None, Some(created)) => rows.push(("Created", table::address_link(created))),
        (None, None) => rows.push(("To", html! { "a new contract" })),
    }
    rows
}

fn fields(tx: &Transaction, is_cosmos: bool, symbol: &str) -> Vec<Row> {
    let kind = match tx.tx_type() as u8 {
        _ if is_cosmos => format!("{}, Cosmos", cosmos::TX_TYPE),
        0 => "0, legacy".to_owned(),
        1 => "1, access list (EIP-2930)".to_owned(),
        2 => "2, dynamic fee (EIP-1559)".to_owned(),
        3 => "3, blob (EIP-4844)".to_owned(),
        4 => "4, set code (EIP-7702)".to_owned(),
        other => other.to_string(),
    };
    vec![
        ("Amount", html! { (text::amount(tx.value())) " " (symbol) }),
        ("Nonce", html! { (tx.nonce()) }),
        ("Type", html! { (kind) }),
        ("Gas limit", html! { (text::grouped(tx.gas_limit())) }),
    ]
}

/// Returns the rows with the fee and its parts.
fn fee(mined: &MinedTx<'_>, gas_used: u64, symbol: &str) -> Vec<Row> {
    let base_fee = mined.block.header.base_fee_per_gas;
    let price = mined.tx.effective_gas_price(base_fee);
    let base = u128::from(base_fee.unwrap_or_default());
    let cost = |price: u128| {
        format!("{} {symbol}", text::amount(U256::from(price) * U256::from(gas_used)))
    };
    let mut rows = vec![
        (
            "Gas charged",
            html! {
                (text::grouped(gas_used)) " of " (text::grouped(mined.tx.gas_limit())) " ("
                (text::percent(gas_used, mined.tx.gas_limit())) ")"
            },
        ),
        ("Gas price", html! { (text::exact_price(price)) }),
        ("Fee", html! { (cost(price)) }),
    ];
    if base_fee.is_some() {
        let priority = price.saturating_sub(base);
        rows.push(("of which base fee", html! { (cost(base)) " (" (text::exact_price(base)) ")" }));
        rows.push((
            "of which priority fee",
            html! {
                (cost(priority)) " (" (text::exact_price(priority)) ")"
            },
        ));
    }
    rows.extend(offers(&mined.tx));
    rows
}

/// Returns the rows with the maximum prices that the sender offered.
fn offers(tx: &Transaction) -> Vec<Row> {
    let mut rows = vec![("Maximum price", html! { (text::exact_price(tx.max_fee_per_gas())) })];
    if let Some(priority_fee) = tx.max_priority_fee_per_gas() {
        rows.push(("Maximum priority fee", html! { (text::exact_price(priority_fee)) }));
    }
    rows
}

fn raw(bytes: &[u8]) -> Markup {
    html! {
        @if !bytes.is_empty() {
            details {
                summary { "Raw transaction, " (text::bytes(bytes.len() as u64)) }
                pre tabindex="0" { (text::hex_of(bytes, MAX_RAW_BYTES)) }
            }
        }
    }
}

/// Renders the page of a transaction in the pool.
pub(crate) async fn pooled(pages: &Arc<Pages>, hash: B256) -> Result<Page, PageError> {
    let pool = &pages.context.pool;
    let busy = |error: &dyn std::fmt::Display| PageError::Busy(error.to_string());
    let found = pool.transaction(hash).await.map_err(|error| busy(&error))?;
    let Found::Pooled(tx) = found else {
        let reason = format!("Neither a block nor the pool has the transaction {hash}.");
        return Err(PageError::NotFound(reason));
    };
    let own = pool.content(Some(tx.sender)).await.map_err(|error| busy(&error))?;
    let before = own
        .iter()
        .flat_map(|sender| &sender.pending)
        .filter(|other| other.tx.nonce() < tx.tx.nonce());
    let is_executable =
        own.iter().flat_map(|sender| &sender.pending).any(|other| other.hash == tx.hash);
    let base_fee = pool.level().await.map_err(|error| busy(&error))?.base_fee;
    let symbol = symbol(&pages.context.spec);
    Ok(pooled_page(&tx, before.count(), is_executable, base_fee, &symbol))
}

fn pooled_page(
    tx: &RecoveredTx,
    before: usize,
    is_executable: bool,
    base_fee: u128,
    symbol: &str,
) -> Page {
    let offered = tx.tx.max_fee_per_gas();
    let status = match (is_executable, offered >= base_fee) {
        (false, _) => "It waits for a transaction of the same sender with a lower nonce.",
        (true, false) => "It waits until the base fee is at most its maximum price.",
        (true, true) => "It can be in the next block.",
    };
    let mut rows = vec![
        ("Hash", html! { code { (tx.hash) } }),
        ("Status", html! { "In the pool. " (status) }),
        (
            "Before it",
            html! {
                (text::count(before as u64, "transaction")) " of the same sender"
            },
        ),
        ("Base fee of the next block", html! { (text::exact_price(base_fee)) }),
    ];
    rows.extend(parties(tx.sender, tx.tx.to(), None));
    rows.extend(fields(&tx.tx, tx.cosmos.is_some(), symbol));
    rows.extend(offers(&tx.tx));
    let contents = html! {
        (terms(&rows))
        (input::section(tx.tx.input(), tx.tx.to().is_none()))
        (raw(&tx.raw))
    };
    Page::new("Transaction", contents)
}

/// Executes a mined transaction again, and renders the page of its execution.
pub(crate) fn executed(
    reading: &Reading,
    hash: B256,
    deadline: &Deadline,
) -> Result<Page, PageError> {
    let located = stored::locate(reading.spec(), &reading.view, hash)?;
    let Some((block, index)) = located else {
        return Err(PageError::NotFound(format!("No block has the transaction {hash}.")));
    };
    let contents = execution::section(reading, &block, index, deadline)?;
    Ok(Page::new(
        "Execution",
        html! {
            p { a href={ "/tx/" (hash) } { "Back to the transaction" } }
            (contents)
        },
    ))
}
