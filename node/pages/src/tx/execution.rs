//! Executes a mined transaction again to show its gas, its calls and its state changes. The transactions before it in
//! its block are executed too, within a time limit.

use crate::{error::PageError, frame::terms, reading::Reading, table, text};
use alloy_primitives::{Address, B256, U256};
use alloy_rpc_types_trace::geth::{
    CallFrame, DiffMode, GethDebugBuiltInTracerType, GethDebugTracingOptions, GethTrace,
};
use evm::{ExecutionGas, GethTracer, StateError, TraceError, TracedBlock, WithGas};
use maud::{Markup, html};
use rpc_eth::{eth::CallHost, module_state::modules_within_view};
use rpc_types::revert::revert_reason;
use server::interrupt::Deadline;
use state::stored::StoredBlock;
use std::collections::BTreeSet;
use storage::StateChanges;

/// Maximum number of calls that are shown.
const MAX_CALLS: usize = 1_000;
/// Maximum depth of calls that are shown. A browser lays out a deep list slowly.
const MAX_SHOWN_DEPTH: u32 = 64;
/// Maximum number of changed accounts, and of changed slots of one account, that are shown.
const MAX_CHANGED: usize = 200;
/// Maximum number of bytes of the input of a call that are shown.
const MAX_DATA_BYTES: usize = 68;

/// The recorded execution.
struct Execution {
    gas: ExecutionGas,
    calls: CallFrame,
    changes: DiffMode,
}

pub(super) fn section(
    reading: &Reading,
    stored: &StoredBlock,
    index: usize,
    deadline: &Deadline,
) -> Result<Markup, PageError> {
    let Execution { gas, mut calls, changes } = execute(reading, stored, index, deadline)?;
    let symbol = reading.symbol();
    let used = gas.spent.saturating_sub(gas.refunded);
    // The tracer reports the gas charged, which may exceed the gas used (`min_gas_multiplier`).
    calls.gas_used = U256::from(used);
    let rows = [
        ("Gas used", html! { (text::grouped(used)) }),
        ("Gas before the refund", html! { (text::grouped(gas.spent)) }),
        ("Refund", html! { (text::grouped(gas.refunded)) }),
    ];
    Ok(html! {
        h2 { "Execution" }
        (terms(&rows))
        h2 { "Calls" }
        (call_tree(&calls, &symbol))
        h2 { "State changes" }
        (state_changes(&changes, &symbol))
    })
}

fn execute(
    reading: &Reading,
    stored: &StoredBlock,
    index: usize,
    deadline: &Deadline,
) -> Result<Execution, PageError> {
    let (spec, view) = (reading.spec(), &reading.view);
    let header = &stored.block.header;
    let state = view.state.reader_at(header.number.saturating_sub(1))?;
    let modules = modules_within_view(spec, view, header.number)?;
    let caches = reading.pages.context.caches.as_deref();
    let host = CallHost { view, deadline, caches };
    let (hash, modules) = (stored.block.hash, modules.as_deref());
    // The receipts are discarded, so the state roots in them may be wrong.
    let no_root = |_: &StateChanges| Ok::<_, StateError>(B256::ZERO);
    let failed = |error: TraceError| {
        match error {
        TraceError::TooLarge => PageError::TooLarge(
            "The transaction makes more calls than a page can record. debug_traceTransaction with a tracer that \
             records less may show them."
                .to_owned(),
        ),
        _ if deadline.passed() => PageError::Busy(
            "The node could not execute the transaction and those before it in its block within 5 s. It may be busy: \
             try again."
                .to_owned(),
        ),
        error => PageError::Failed(error.to_string()),
    }
    };
    let tracer = WithGas(tracer());
    let mut block =
        TracedBlock::start(spec, &state, &host, header, hash, modules, tracer).map_err(failed)?;
    for before in 0..index {
        let Some(tx) = stored.tx(before)? else { break };
        block.pass(&tx.recovered(), &no_root).map_err(failed)?;
    }
    let tx = stored.tx(index)?;
    let tx = tx.ok_or_else(|| PageError::failed("the transaction is not in its block"))?;
    let (trace, gas) = block.trace(&tx.recovered(), &no_root).map_err(failed)?;
    parts(trace, gas).ok_or_else(|| PageError::failed("the tracer did not record the execution"))
}

/// Records calls and state changes in one execution.
fn tracer() -> GethTracer {
    let config = serde_json::json!({ "callTracer": {}, "prestateTracer": { "diffMode": true } });
    GethTracer(GethDebugTracingOptions {
        tracer: Some(GethDebugBuiltInTracerType::MuxTracer.into()),
        tracer_config: config.into(),
        ..GethDebugTracingOptions::default()
    })
}

fn parts(trace: GethTrace, gas: ExecutionGas) -> Option<Execution> {
    let GethTrace::MuxTracer(mut traces) = trace else { return None };
    let calls = traces.0.remove(&GethDebugBuiltInTracerType::CallTracer.into())?;
    let changes = traces.0.remove(&GethDebugBuiltInTracerType::PreStateTracer.into())?;
    // The prestate tracer returns its result only as JSON.
    let (GethTrace::CallTracer(calls), GethTrace::JS(changes)) = (calls, changes) else {
        return None;
    };
    let changes = serde_json::from_value(changes).ok()?;
    Some(Execution { gas, calls, changes })
}

/// The number of calls that can still be shown.
struct CallQuota {
    remaining: usize,
    /// Whether a call was left out.
    exceeded: bool,
}

/// Renders the calls as nested lists. The depth of a list is the depth of its calls.
fn call_tree(root: &CallFrame, symbol: &str) -> Markup {
    let mut quota = CallQuota { remaining: MAX_CALLS, exceeded: false };
    let tree = call(root, symbol, 0, &mut quota);
    html! {
        ul.tree tabindex="0" aria-label="Calls" { (tree) }
        @if quota.exceeded { p { "The page shows the first " (text::grouped(MAX_CALLS as u64)) " calls." } }
    }
}

fn call(frame: &CallFrame, symbol: &str, depth: u32, quota: &mut CallQuota) -> Markup {
    if quota.remaining == 0 {
        quota.exceeded = true;
        return html! {};
    }
    quota.remaining -= 1;
    let is_shown = depth < MAX_SHOWN_DEPTH;
    html! {
        li {
            (line(frame, symbol))
            @if !frame.calls.is_empty() {
                @if is_shown { ul { @for inner in &frame.calls { (call(inner, symbol, depth + 1, quota)) } } }
                @else { " and deeper calls" }
            }
        }
    }
}

fn line(frame: &CallFrame, symbol: &str) -> Markup {
    let value = frame.value.filter(|value| !value.is_zero());
    html! {
        code { (frame.typ) } " "
        @if let Some(to) = frame.to { (table::address_link(to)) }
        @if let Some(value) = value { ", amount " (text::amount(value)) " " (symbol) }
        ", gas " (text::grouped(u64::try_from(frame.gas_used).unwrap_or(u64::MAX)))
        // The error precedes the input, which may be longer than a line of the screen.
        @if let Some(error) = &frame.error { ", " span.bad { (failure(frame, error)) } }
        @if !frame.input.is_empty() { ", input " code { (text::hex_of(&frame.input, MAX_DATA_BYTES)) } }
    }
}

/// Returns why a call failed. A contract chose the reason, so it is escaped.
fn failure(frame: &CallFrame, error: &str) -> Markup {
    let reason = frame.output.as_ref().and_then(|output| revert_reason(output));
    match reason {
        Some(reason) => html! { "reverted: " bdi { (text::printable(&reason)) } },
        None => html! { (text::printable(error)) },
    }
}

fn state_changes(changes: &DiffMode, symbol: &str) -> Markup {
    let accounts: BTreeSet<Address> =
        changes.pre.keys().chain(changes.post.keys()).copied().collect();
    let left_out = accounts.len().saturating_sub(MAX_CHANGED);
    html! {
        @if accounts.is_empty() { p { "The transaction changed nothing." } }
        @for address in accounts.iter().take(MAX_CHANGED) {
            section {
                p { (table::address_link(*address)) }
                (account(changes, *address, symbol))
            }
        }
        @if left_out > 0 { p { (text::count(left_out as u64, "more account")) } }
    }
}

fn account(changes: &DiffMode, address: Address, symbol: &str) -> Markup {
    let none = Default::default();
    let before = changes.pre.get(&address).unwrap_or(&none);
    let after = changes.post.get(&address).unwrap_or(&none);
    let balances = (before.balance.unwrap_or_default(), after.balance.or(before.balance));
    let slots: BTreeSet<B256> =
        before.storage.keys().chain(after.storage.keys()).copied().collect();
    html! {
        dl {
            @if let (old, Some(new)) = balances {
                @if old != new {
                    div { dt { "Balance" } dd { (text::amount(old)) " → " (text::amount(new)) " " (symbol) " (" (difference(old, new)) ")" } }
                }
            }
            @if let Some(nonce) = after.nonce {
                div { dt { "Nonce" } dd { (before.nonce.unwrap_or_default()) " → " (nonce) } }
            }
            @if let Some(code) = &after.code {
                div { dt { "Code" } dd { (text::count(code.len() as u64, "byte")) } }
            }
            @for slot in slots.iter().take(MAX_CHANGED) {
                div {
                    dt { "Slot " code { (text::short_hash(*slot)) } }
                    dd {
                        code { (before.storage.get(slot).copied().unwrap_or_default()) } " → "
                        code { (after.storage.get(slot).copied().unwrap_or_default()) }
                    }
                }
            }
            @if slots.len() > MAX_CHANGED {
                div { dt { "Slots" } dd { (text::grouped((slots.len() - MAX_CHANGED) as u64)) " more" } }
            }
        }
    }
}

/// Formats the change of a balance with its sign.
fn difference(old: U256, new: U256) -> String {
    match new >= old {
        true => format!("+{}", text::amount(new - old)),
        false => format!("-{}", text::amount(old - new)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a call that makes `inner` calls, all with a large input.
    fn with_calls(inner: usize) -> CallFrame {
        let input = vec![0xff; 4_096].into();
        let frame = CallFrame { typ: "CALL".to_owned(), input, ..CallFrame::default() };
        CallFrame { calls: vec![frame.clone(); inner], ..frame }
    }

    #[test]
    fn a_hundred_thousand_calls_make_a_short_list() {
        let limit = "The page shows the first 1,000 calls.";
        for (inner, is_limited) in [(MAX_CALLS - 1, false), (MAX_CALLS, true), (100_000, true)] {
            let shown = call_tree(&with_calls(inner), "ETH").into_string();
            assert_eq!(shown.matches("<li>").count(), MAX_CALLS.min(inner + 1), "{inner}");
            assert_eq!(shown.contains(limit), is_limited, "{inner}");
            assert!(shown.len() < 512 * 1024, "{inner}: {} bytes", shown.len());
        }
    }

    #[test]
    fn deep_calls_make_a_list_of_limited_depth() {
        let mut root = with_calls(0);
        for _ in 0..1_024 {
            root = CallFrame { calls: vec![root], ..with_calls(0) };
        }
        let shown = call_tree(&root, "ETH").into_string();
        assert_eq!(shown.matches("<ul").count(), MAX_SHOWN_DEPTH as usize + 1);
        assert!(shown.contains("and deeper calls"));
    }
}
