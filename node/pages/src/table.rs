//! Renders lists of blocks and transactions, and links to their pages.

use crate::{error::PageError, reading::Reading, text};
use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, B256, U256};
use feehistory::RowReader;
use maud::{Markup, html};
use state::stored::{self, MinedTx};
use storage::{ChainReader, ReceiptOutcome};

/// The percentile of the priority fee of a block: half of its gas paid at most this, as in `eth_feeHistory`.
const MEDIAN: f64 = 50.0;

/// The figures of a block in a list.
#[derive(Clone, Debug)]
pub(crate) struct BlockRow {
    pub(crate) number: u64,
    pub(crate) hash: B256,
    pub(crate) timestamp: u64,
    pub(crate) txs: usize,
    pub(crate) gas_used: u64,
    pub(crate) gas_limit: u64,
    /// In wei per gas; `None` before London.
    pub(crate) base_fee: Option<u64>,
    /// In wei per gas.
    pub(crate) priority_fee: u128,
    pub(crate) beneficiary: Address,
}

impl BlockRow {
    pub(crate) fn read(blocks: &ChainReader, number: u64) -> Result<Self, PageError> {
        let (hash, header) = stored::header(blocks, number)?;
        let fees = blocks.fees(number)?;
        let fees =
            fees.ok_or_else(|| PageError::failed(format!("block {number} has no fee row")))?;
        let priority_fee = RowReader::new(&fees).map_err(PageError::failed)?.reward(MEDIAN);
        Ok(Self {
            number,
            hash,
            timestamp: header.timestamp,
            txs: blocks.tx_count(number)?,
            gas_used: header.gas_used,
            gas_limit: header.gas_limit,
            base_fee: header.base_fee_per_gas,
            priority_fee,
            beneficiary: header.beneficiary,
        })
    }

    /// Reads the last `count` blocks up to `newest`, or all if there are fewer. Returns the newest block first.
    pub(crate) fn up_to(
        blocks: &ChainReader,
        newest: u64,
        count: u64,
    ) -> Result<Vec<Self>, PageError> {
        let oldest = (newest + 1).saturating_sub(count);
        (oldest..=newest).rev().map(|number| Self::read(blocks, number)).collect()
    }
}

/// Renders a table of blocks.
pub(crate) fn blocks(rows: &[BlockRow], now: u64) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Blocks" {
            table {
                thead { tr {
                    th scope="col" { "Block" } th scope="col" { "Time" }
                    th.number scope="col" { "Transactions" } th.number scope="col" { "Gas" }
                    th.number scope="col" { "Gas limit used" } th.number scope="col" { "Base fee" }
                    th.number scope="col" { "Priority fee" } th scope="col" { "Hash" }
                } }
                tbody {
                    @for row in rows {
                        tr {
                            td { (block_link(row.number)) }
                            td title=(text::time(row.timestamp)) { (text::age(now, row.timestamp)) }
                            td.number { (text::grouped(row.txs as u64)) }
                            td.number { (text::grouped(row.gas_used)) }
                            td.number { (text::percent(row.gas_used, row.gas_limit)) }
                            td.number { (fee(row.base_fee)) }
                            td.number { (text::price(u64::try_from(row.priority_fee).unwrap_or(u64::MAX))) }
                            td.hash { (text::short_hash(row.hash)) }
                        }
                    }
                }
            }
        }
    }
}

/// Formats a base fee, which blocks before London do not have.
pub(crate) fn fee(base_fee: Option<u64>) -> String {
    base_fee.map_or_else(|| "none".to_owned(), text::price)
}

/// A transaction in a list.
#[derive(Clone, Debug)]
pub(crate) struct TxRow {
    pub(crate) hash: B256,
    pub(crate) block: u64,
    pub(crate) timestamp: u64,
    pub(crate) from: Address,
    pub(crate) to: Option<Address>,
    pub(crate) created: Option<Address>,
    pub(crate) method: String,
    pub(crate) value: U256,
    pub(crate) has_failed: bool,
}

impl TxRow {
    pub(crate) fn of(mined: &MinedTx<'_>, outcome: ReceiptOutcome) -> Self {
        Self {
            hash: mined.hash,
            block: mined.block.header.number,
            timestamp: mined.block.header.timestamp,
            from: mined.sender,
            to: mined.to(),
            created: mined.created(),
            method: method(mined),
            value: mined.tx.value(),
            has_failed: outcome == ReceiptOutcome::Status(false),
        }
    }
}

/// Describes what a transaction does.
fn method(mined: &MinedTx<'_>) -> String {
    if mined.cosmos.is_some() {
        return "Cosmos transaction".to_owned();
    }
    match (mined.to(), mined.tx.input().first_chunk::<4>()) {
        (None, _) => "contract creation".to_owned(),
        (Some(_), None) => "transfer".to_owned(),
        (Some(_), Some(selector)) => crate::signatures::function(*selector)
            .map_or_else(|| text::hex(selector), |signature| format!("{}()", signature.name())),
    }
}

/// Renders a table of transactions. `subject` is the address of the page, which is not linked.
pub(crate) fn txs(reading: &Reading, rows: &[TxRow], subject: Option<Address>) -> Markup {
    let now = text::now();
    html! {
        div.scroll tabindex="0" role="region" aria-label="Transactions" {
            table {
                thead { tr {
                    th scope="col" { "Transaction" } th scope="col" { "Block" } th scope="col" { "Time" }
                    th scope="col" { "Method" } th scope="col" { "From" } th scope="col" { "To" }
                    th.number scope="col" { "Amount (" (reading.symbol()) ")" }
                } }
                tbody {
                    @for row in rows {
                        tr {
                            td.hash { a href={ "/tx/" (row.hash) } { (text::short_hash(row.hash)) } }
                            td { (block_link(row.block)) }
                            td title=(text::time(row.timestamp)) { (text::age(now, row.timestamp)) }
                            td { (row.method) @if row.has_failed { " " span.bad { "failed" } } }
                            td.hash { (party(Some(row.from), subject)) }
                            td.hash {
                                @if let Some(created) = row.created { "new " (party(Some(created), subject)) }
                                @else { (party(row.to, subject)) }
                            }
                            td.number { (text::amount(row.value)) }
                        }
                    }
                }
            }
        }
    }
}

fn party(address: Option<Address>, subject: Option<Address>) -> Markup {
    match address {
        None => html! { "none" },
        Some(address) if subject == Some(address) => html! { (text::short_address(address)) },
        Some(address) => {
            html! { a href=(address_path(address)) title=(address) { (text::short_address(address)) } }
        }
    }
}

fn address_path(address: Address) -> String {
    format!("/address/{address}")
}

/// Renders a link to the page of an address.
pub(crate) fn address_link(address: Address) -> Markup {
    html! { a.hash href=(address_path(address)) { (address) } }
}

/// Renders a link to the page of a block.
pub(crate) fn block_link(number: u64) -> Markup {
    html! { a href={ "/block/" (number) } { (text::grouped(number)) } }
}
