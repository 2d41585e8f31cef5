//! The library of `evmd`: an EVM chain node built as an indexer. In the order data flows, then the
//! order people ask:
//!
//! - [`cli`]: the commands; [`config`] and [`home`] are what they work on; [`heap`] is the memory they
//!   work in.
//! - [`snapshot`]: copies of a chain, and home folders made of them; [`audit`]: recomputes what they
//!   hold.
//! - [`chain`]: the rules of a chain: genesis, forks, header validity. Pure.
//! - [`pipeline`]: the stages from bytes to durable, published blocks, and the rings between them.
//!   [`block`] is the unit that travels.
//! - [`mempool`]: transactions accepted and not mined yet; [`consensus`] says when to make a block.
//! - [`execution`]: transactions and state in, receipts and state changes out. Pure.
//! - [`feemarket`]: what gas costs in the next block; [`modules`]: it and the EVM's parameters as the
//!   chain's state; [`decorator`]: what a transaction must satisfy on the native chain. Pure.
//! - [`cosmos`]: transactions of the Cosmos interfaces; [`gov`]: how parameters are voted on. Pure.
//! - [`descriptors`]: how many connections the open-files limit allows.
//! - [`account`]: addresses in their forms, keys and where they are kept.
//! - [`feehistory`]: the row of fee facts stored with each block.
//! - [`view`]: what readers see: an immutable snapshot, replaced per block.
//! - [`query`]: the answers of the Cosmos interfaces; [`grpc`] and [`rest`] serve them,
//!   as the messages of [`proto`]; [`comet`] serves them as CometBFT's RPC does, all three by [`listen`];
//!   `access` checks hosts and origins for every HTTP server, `compression` compresses large responses,
//!   `half_close` serves clients that have closed their sending side.
//! - [`costs`]: what bounds the work of each query.
//! - [`rpc`]: Ethereum's JSON-RPC; [`observe`]: metrics, health and status.
//! - [`budget`]: what the clients of all servers share.

mod access;
pub mod account;
pub mod audit;
pub mod block;
pub mod budget;
pub mod chain;
pub mod cli;
pub mod comet;
mod compression;
pub mod config;
pub mod consensus;
pub mod cosmos;
pub mod costs;
pub mod decorator;
pub mod descriptors;
pub mod doctor;
pub mod execution;
pub mod feehistory;
pub mod feemarket;
pub mod gov;
pub mod grpc;
mod half_close;
pub mod heap;
pub mod home;
pub mod listen;
pub mod mempool;
pub mod modules;
pub mod observe;
pub mod pipeline;
pub mod proto;
pub mod query;
pub mod rest;
pub mod rpc;
mod sigbus;
mod slice;
pub mod snapshot;
mod table;
pub mod view;
mod whole_file;
