//! Tests REST, gRPC, CometBFT's RPC and `evmd query`, mostly over the sockets of a node with a development chain.

mod answers;
mod base_fee;
mod blocked;
mod call;
mod cli;
mod clients;
mod comet;
mod comet_socket;
mod comet_txs;
mod cosmjs;
mod decimals;
mod forms;
mod golden;
mod gov;
mod gov_pages;
mod grpc;
mod journal;
mod minimum_price;
mod no_production;
mod openapi;
mod rest;
mod search;
mod sequence;
mod served;
mod txs;
