//! Renders the list of blocks and the page of a block.

use crate::{
    error::PageError,
    frame::{Page, terms},
    reading::Reading,
    search,
    table::{self, BlockRow, TxRow},
    text, validators,
};
use alloy_primitives::{B256, U256};
use maud::{Markup, html};
use state::stored::{self, StoredBlock};
use storage::BlockFlags;

/// Maximum number of blocks on a page of the list.
const BLOCKS_PER_PAGE: u64 = 50;
/// Maximum number of transactions on a page of a block. Only these are decoded.
const TXS_PER_PAGE: usize = 50;
/// Maximum number of bytes of `extraData` that are shown. Ethereum allows 32.
const MAX_EXTRA_BYTES: usize = 64;

/// Renders the list of blocks, newest first, from the head or from `?newest=`.
pub(crate) fn list(reading: &Reading) -> Result<Page, PageError> {
    let head = reading.view.number();
    let newest = reading.number("newest")?.unwrap_or(head).min(head);
    let rows = BlockRow::up_to(&reading.view.blocks()?, newest, BLOCKS_PER_PAGE)?;
    let older = newest.checked_sub(BLOCKS_PER_PAGE);
    let contents = html! {
        (table::blocks(&rows, text::now()))
        nav.pages aria-label="Pages of blocks" {
            @if newest < head {
                a href={ "/blocks?newest=" (newest.saturating_add(BLOCKS_PER_PAGE)) } { "Newer" }
            }
            @if let Some(older) = older { a href={ "/blocks?newest=" (older) } { "Older" } }
        }
    };
    Ok(Page::new("Blocks", contents))
}

/// Renders the page of a block. `id` is its number, its hash or `latest`.
pub(crate) fn page(reading: &Reading, id: &str) -> Result<Page, PageError> {
    let number = number_of(reading, id)?;
    let blocks = reading.view.blocks()?;
    let row = BlockRow::read(&blocks, number)?;
    let stored = StoredBlock::read(reading.spec(), &blocks, number)?;
    let flags = blocks.flags(number)?.unwrap_or_default();
    let contents = html! {
        (neighbours(number, reading.view.number()))
        (summary(reading, &stored, &row, flags)?)
        (transactions(reading, &stored)?)
    };
    Ok(Page::new(format!("Block {}", text::grouped(number)), contents))
}

fn number_of(reading: &Reading, id: &str) -> Result<u64, PageError> {
    let head = reading.view.number();
    if id == "latest" {
        return Ok(head);
    }
    if let Ok(hash) = id.parse::<B256>() {
        let number = reading.view.block_number(hash)?;
        return number.ok_or_else(|| PageError::NotFound(format!("No block has the hash {hash}.")));
    }
    let number = search::block_number(id).ok_or_else(|| {
        PageError::Invalid(
            "The path of a block ends with a number, a hash or \"latest\".".to_owned(),
        )
    })?;
    if number > head {
        let reason = format!("The newest block is {}.", text::grouped(head));
        return Err(PageError::NotFound(reason));
    }
    Ok(number)
}

fn neighbours(number: u64, head: u64) -> Markup {
    html! {
        nav.pages aria-label="Neighbours" {
            @if let Some(before) = number.checked_sub(1) {
                a href={ "/block/" (before) } rel="prev" { "Previous block" }
            }
            @if number < head { a href={ "/block/" (number + 1) } rel="next" { "Next block" } }
        }
    }
}

fn summary(
    reading: &Reading,
    stored: &StoredBlock,
    row: &BlockRow,
    flags: BlockFlags,
) -> Result<Markup, PageError> {
    let (header, symbol) = (&stored.block.header, reading.symbol());
    let base_fees = row.base_fee.map(|fee| U256::from(fee) * U256::from(header.gas_used));
    let mut rows = vec![
        ("Hash", html! { code { (row.hash) } }),
        ("Time", html! { (text::time(row.timestamp)) }),
        ("Transactions", html! { (text::grouped(row.txs as u64)) }),
        ("Fee recipient", table::address_link(row.beneficiary)),
        (
            "Gas used",
            html! {
                (text::grouped(row.gas_used)) " of " (text::grouped(row.gas_limit)) " ("
                (text::percent(row.gas_used, row.gas_limit)) ")"
            },
        ),
        ("Base fee", html! { (table::fee(row.base_fee)) }),
        ("Priority fee", html! { (text::exact_price(row.priority_fee)) " (median of the gas)" }),
    ];
    if let Some(base_fees) = base_fees {
        rows.push(("Base fee of all gas", html! { (text::amount(base_fees)) " " (symbol) }));
    }
    rows.extend(validators::certificate_rows(reading, row.number)?);
    rows.extend([
        ("Size", html! { (text::bytes(stored.block.rlp_bytes as u64)) }),
        (
            "Parent",
            html! { a.hash href={ "/block/" (header.parent_hash) } { (header.parent_hash) } },
        ),
        ("State root", html! { code { (header.state_root) } }),
        ("Transactions root", html! { code { (header.transactions_root) } }),
        ("Receipts root", html! { code { (header.receipts_root) } }),
        ("Random value", html! { code { (header.mix_hash) } }),
        ("Extra data", html! { code { (text::hex_of(&header.extra_data, MAX_EXTRA_BYTES)) } }),
    ]);
    if flags != BlockFlags::NONE {
        let reason = "A client of the development chain set accounts, fields of the header or a sender. \
            The block is not valid by the rules of the chain.";
        rows.push(("Set by a client", html! { (reason) }));
    }
    Ok(terms(&rows))
}

fn transactions(reading: &Reading, stored: &StoredBlock) -> Result<Markup, PageError> {
    let count = stored.block.transactions.len();
    let pages = count.div_ceil(TXS_PER_PAGE).max(1);
    let page = reading.number("page")?.unwrap_or(1).clamp(1, pages as u64) as usize;
    let first = (page - 1) * TXS_PER_PAGE;
    let outcomes = stored::outcomes(&reading.view.blocks()?, stored.block.header.number)?;
    let mut rows = Vec::with_capacity(TXS_PER_PAGE);
    for (index, outcome) in outcomes.into_iter().enumerate().skip(first).take(TXS_PER_PAGE) {
        let Some(mined) = stored.tx(index)? else { break };
        rows.push(TxRow::of(&mined, outcome));
    }
    let path = format!("/block/{}?page=", stored.block.header.number);
    Ok(html! {
        h2 { "Transactions" }
        @if rows.is_empty() { p { "This block has no transactions." } }
        @else {
            (table::txs(reading, &rows, None))
            @if pages > 1 {
                nav.pages aria-label="Pages of transactions" {
                    @if page > 1 { a href={ (path) (page - 1) } { "Previous page" } }
                    span { "Page " (page) " of " (pages) }
                    @if page < pages { a href={ (path) (page + 1) } { "Next page" } }
                }
            }
        }
    })
}
