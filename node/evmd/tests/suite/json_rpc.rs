//! Tests JSON-RPC over sockets. Each test starts its own node.

mod audit;
mod bad_input;
mod call_many;
mod calls;
mod connection_threads;
mod contract_creator;
mod discover;
mod executed_again;
mod explorer;
mod fees;
mod fields;
mod history;
mod native;
mod own;
mod parity;
mod prices;
mod protection;
mod readers;
mod recorded_traces;
mod results;
mod signing;
mod state_pages;
mod subscribe_in_batch;
mod subscriptions;
mod trace_timeout;
mod traces;
mod wide_prices;

pub(crate) use native::CONTRACT;
