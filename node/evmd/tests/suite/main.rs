//! The integration tests of the node, in one binary, because each test binary links the whole node.
//!
//! Each module tests one topic; `common`, `client`, `random` and `fixtures` are helpers. Data files are in the folders
//! next to `suite`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "modules share their `pub` items within this binary")]

mod batches;
mod blobs;
mod certificates;
mod client;
mod clients;
mod commands;
mod common;
mod compression;
mod cosmos;
mod costs_docs;
mod development;
mod documented_commands;
mod ethereum_fixtures;
mod fee_history;
mod fee_market_chain;
mod feemarket;
mod fixtures;
mod forks;
mod governance;
mod half_close;
mod health;
mod hostile;
mod import;
mod ingest;
mod json_rpc;
mod key_vectors;
mod keys;
mod kill;
mod large_responses;
mod limits_docs;
mod listeners;
mod load;
mod load_kill;
mod mempool;
mod metrics_docs;
mod metrics_text;
mod monitoring;
mod native;
mod pages;
mod pending;
mod plain_mode;
mod production;
mod random;
mod replication;
mod rpc_docs;
mod rpc_io;
mod rules_versions;
mod settings;
mod settings_docs;
mod snapshots;
mod start_safety;
mod stored_data;
mod terminal;
mod tool_suites;
mod undo;
#[cfg(feature = "consensus")]
mod validators;
mod websocket;
