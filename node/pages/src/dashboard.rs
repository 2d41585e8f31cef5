//! Renders the dashboard: the newest blocks, rates, fees, the stages of the pipeline, the pool, storage and addresses.

use crate::{
    error::PageError,
    frame::Page,
    plot::Plot,
    reading::Reading,
    samples::{PoolState, Rates, StageRates},
    table::{self, BlockRow},
    text,
};
use config::Endpoints;
use maud::{Markup, html};
use mempool::{Level, PriceBand};
use platform::{memory::available_memory, process::ProcessUsage};
use std::net::SocketAddr;
use storage::EnvStats;

/// Maximum number of blocks in the table.
const SHOWN_BLOCKS: u64 = 10;
/// Maximum number of blocks in the plots.
const PLOTTED_BLOCKS: u64 = 120;

/// Each stage with the rings from which it receives its work, by the names of the monitor.
const INPUTS: [(&str, &[&str]); 8] = [
    ("ingest", &["replies"]),
    ("recover", &["raw", "blocks"]),
    ("ante", &["checks", "submit", "queries", "heads"]),
    ("execute", &["recovered", "proposals", "headers", "requests"]),
    ("fee", &["executed"]),
    ("seal", &["priced"]),
    ("commit", &["sealed"]),
    ("flush", &["layers", "checkpoints"]),
];

pub(crate) fn page(reading: &Reading, pool: &PoolState) -> Result<Page, PageError> {
    let context = &reading.pages.context;
    let contents = html! {
        div data-live="/live" { (live(reading, pool)?) }
        h2 { "Addresses" }
        (endpoints(&context.endpoints))
    };
    Ok(Page::new("Dashboard", contents))
}

/// Renders the part of the dashboard that changes.
pub(crate) fn live(reading: &Reading, pool: &PoolState) -> Result<Markup, PageError> {
    let rates = reading.pages.samples.rates();
    let head = reading.view.number();
    let rows = BlockRow::up_to(&reading.view.blocks()?, head, PLOTTED_BLOCKS)?;
    let shown = &rows[..rows.len().min(SHOWN_BLOCKS as usize)];
    Ok(html! {
        (figures(reading, &rates, pool.level.as_ref(), shown))
        (plots(&rows))
        h2 { "Newest blocks" }
        (table::blocks(shown, text::now()))
        h2 { "Stages of the pipeline" }
        (stages(&rates))
        h2 { "Pool by price" }
        (bands(&pool.bands))
        h2 { "Storage and memory" }
        (storage(reading))
    })
}

fn figures(reading: &Reading, rates: &Rates, level: Option<&Level>, blocks: &[BlockRow]) -> Markup {
    let head = blocks.first();
    let pool = match level {
        Some(level) => format!(
            "{} executable, {} waiting",
            text::grouped(level.pending as u64),
            text::grouped(level.queued as u64)
        ),
        None => "busy".to_owned(),
    };
    html! {
        dl.figures {
            div { dt { "Newest block" } dd { (table::block_link(reading.view.number())) } }
            div { dt { "Age of the newest block" } dd {
                @if let Some(head) = head { (text::age(text::now(), head.timestamp)) }
            } }
            div { dt { "Transactions per second" } dd { (rate(rates.txs)) } }
            div { dt { "Blocks per second" } dd { (rate(rates.blocks)) } }
            div { dt { "Next base fee" } dd { (text::price(reading.view.head.next_base_fee)) } }
            div { dt { "Pool" } dd { (pool) } }
        }
    }
}

/// Formats a rate, with one decimal below 100.
fn rate(per_second: f64) -> String {
    match per_second < 100.0 {
        true => format!("{per_second:.1}"),
        false => text::grouped(per_second as u64),
    }
}

/// Renders the plots of the rows, which are newest first.
pub(crate) fn plots(rows: &[BlockRow]) -> Markup {
    let range = match (rows.last(), rows.first()) {
        (Some(oldest), Some(newest)) => (oldest.number, newest.number),
        _ => (0, 0),
    };
    let series = |value: fn(&BlockRow) -> f64| rows.iter().rev().map(value).collect::<Vec<_>>();
    let base = series(|row| row.base_fee.unwrap_or_default() as f64);
    let priority = series(|row| row.priority_fee as f64);
    let used = series(|row| row.gas_used as f64 / row.gas_limit.max(1) as f64);
    let price = |wei: f64| text::price(wei as u64);
    let share = |part: f64| format!("{:.1}%", part * 100.0);
    html! {
        div.plots {
            (Plot { title: "Base fee", range, values: &base, maximum: None, label: price }.render())
            (Plot { title: "Priority fee", range, values: &priority, maximum: None, label: price }.render())
            (Plot { title: "Gas limit used", range, values: &used, maximum: Some(1.0), label: share }.render())
        }
    }
}

fn stages(rates: &Rates) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Stages of the pipeline" {
            table {
                caption {
                    "Rates and shares are those of the last ten seconds, latencies those of a batch since the start. \
                     A queue holds batches."
                }
                thead { tr {
                    th scope="col" { "Stage" } th.number scope="col" { "Received per second" }
                    th.number scope="col" { "Sent per second" } th.number scope="col" { "Refused" }
                    th.number scope="col" { "Queue" } th.number scope="col" { "Median latency" }
                    th.number scope="col" { "99th percentile" } th.number scope="col" { "Time working" }
                } }
                tbody { @for stage in &rates.stages { (stage_row(stage, rates)) } }
            }
        }
    }
}

fn stage_row(stage: &StageRates, rates: &Rates) -> Markup {
    let [median, high, _] = stage.latency_seconds;
    html! {
        tr {
            th scope="row" { (stage.name) }
            td.number { (rate(stage.received)) }
            td.number { (rate(stage.sent)) }
            td.number { (text::grouped(stage.refused)) }
            td.number { (queue(stage.name, rates)) }
            td.number { (text::duration(median)) }
            td.number { (text::duration(high)) }
            td.number { (format!("{:.1}%", stage.busy * 100.0)) }
        }
    }
}

/// Returns the number of batches that wait for a stage, and the capacity of the rings of the stage.
fn queue(stage: &str, rates: &Rates) -> String {
    let is_stage = |name: &str| {
        stage == name || stage.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
    };
    let names = INPUTS.iter().find(|(name, _)| is_stage(name)).map_or(&[][..], |(_, names)| names);
    let rings = rates.rings.iter().filter(|ring| names.contains(&ring.name));
    let (depth, capacity) = rings
        .fold((0, 0), |(depth, capacity), ring| (depth + ring.depth, capacity + ring.capacity));
    if capacity == 0 { "none".to_owned() } else { format!("{depth} of {capacity}") }
}

fn bands(bands: &[PriceBand]) -> Markup {
    let total: u64 = bands.iter().map(|band| band.txs).sum();
    html! {
        div.scroll tabindex="0" role="region" aria-label="Pool by price" {
            table {
                caption { "Executable transactions by the priority fee that they would pay in the next block." }
                thead { tr {
                    th scope="col" { "Priority fee" } th.number scope="col" { "Transactions" }
                    th.number scope="col" { "Part" } th.number scope="col" { "Gas limits" }
                } }
                tbody {
                    @for (position, band) in bands.iter().enumerate().rev() {
                        tr {
                            th scope="row" { (band_name(band.from, bands.get(position + 1))) }
                            td.number { (text::grouped(band.txs)) }
                            td.number { (text::percent(band.txs, total)) }
                            td.number { (text::grouped(band.gas)) }
                        }
                    }
                }
            }
        }
    }
}

fn band_name(from: Option<u128>, next: Option<&PriceBand>) -> String {
    let price = |wei: u128| text::price(u64::try_from(wei).unwrap_or(u64::MAX));
    match (from, next.and_then(|next| next.from)) {
        (None, _) => "below the base fee".to_owned(),
        (Some(0), _) => "none".to_owned(),
        (Some(from), Some(to)) => format!("{} to {}", price(from), price(to)),
        (Some(from), None) => format!("{} or more", price(from)),
    }
}

fn storage(reading: &Reading) -> Markup {
    let context = &reading.pages.context;
    let environments =
        [("Chain", reading.view.chain.db().stats()), ("Index", context.index.stats())];
    html! {
        div.scroll tabindex="0" role="region" aria-label="Storage and memory" {
            table {
                thead { tr { th scope="col" { "What" } th.number scope="col" { "In use" } th.number scope="col" { "Limit" } } }
                tbody {
                    @for (name, stats) in &environments { (environment(name, stats)) }
                    (process())
                    @for resource in context.budget.readings() {
                        tr {
                            th scope="row" { (resource_name(resource.name)) }
                            td.number { (resource_amount(resource.name, resource.used)) }
                            td.number { (resource_amount(resource.name, resource.limit)) }
                        }
                    }
                }
            }
        }
    }
}

/// Renders the memory of the process without pages of files, which the kernel can reclaim.
fn process() -> Markup {
    html! {
        @if let Some(bytes) = ProcessUsage::read().anonymous_bytes {
            tr {
                th scope="row" { "Memory of the process" }
                td.number { (text::bytes(bytes)) }
                td.number { (text::bytes(available_memory())) }
            }
        }
    }
}

/// Returns the display name of a resource of the budget.
fn resource_name(name: &str) -> String {
    match name {
        "memory_bytes" => "Memory of clients".to_owned(),
        "filters" => "Filters of JSON-RPC".to_owned(),
        "json_rpc_connections" => "Connections of JSON-RPC".to_owned(),
        "rest_connections" => "Connections of REST".to_owned(),
        "grpc_connections" => "Connections of gRPC".to_owned(),
        "comet_connections" => "Connections of CometBFT RPC".to_owned(),
        "metrics_connections" => "Connections of metrics".to_owned(),
        "pages_connections" => "Connections of web pages".to_owned(),
        "ingest_connections" => "Connections of transactions over TCP".to_owned(),
        other => other.to_owned(),
    }
}

fn resource_amount(name: &str, amount: u64) -> String {
    match (name, amount) {
        (_, u64::MAX) => "none".to_owned(),
        ("memory_bytes", amount) => text::bytes(amount),
        (_, amount) => text::grouped(amount),
    }
}

fn environment(name: &str, stats: &EnvStats) -> Markup {
    html! {
        tr {
            th scope="row" { (name) " on disk" }
            td.number { (text::bytes(stats.used_bytes)) }
            td.number { (text::bytes(stats.map_bytes)) }
        }
    }
}

fn endpoints(endpoints: &Endpoints) -> Markup {
    let url = |scheme: &str, address: Option<SocketAddr>| {
        address.map(|address| format!("{scheme}://{address}"))
    };
    let rows = [
        ("JSON-RPC over HTTP and WebSocket", url("http", endpoints.json_rpc)),
        ("JSON-RPC over WebSocket", url("ws", endpoints.json_rpc_ws)),
        ("REST", url("http", endpoints.rest)),
        ("gRPC", url("http", endpoints.grpc)),
        ("CometBFT RPC", url("http", endpoints.comet)),
        ("Raw transactions over TCP", url("tcp", endpoints.ingest)),
        ("Metrics, health and status", url("http", endpoints.metrics)),
    ];
    html! {
        dl {
            @for (name, address) in rows.iter().filter_map(|(name, address)| Some((name, address.as_ref()?))) {
                div {
                    dt { (name) }
                    dd {
                        code { (address) } " "
                        button.small type="button" data-copy=(address) hidden aria-label={ "Copy the address of " (name) } { "Copy" }
                    }
                }
            }
        }
    }
}
