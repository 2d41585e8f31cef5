//! The mempool with 100,000 transactions pending: what one insertion costs, and what taking one
//! into a block costs, from choosing it to dropping it once it is mined.
//!
//! No signatures and no state reads: the pool is told senders and accounts. Fees are random, so
//! that the orders are exercised; hashes are random, so that no cache line is the right one.

use alloy_consensus::{SignableTransaction, TxEip1559, TxEip7702, TxLegacy};
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, Signature, TxKind, U256};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use node::{
    execution::{RecoveredTx, Transaction},
    mempool::{Limits, Mempool},
};
use std::{hint::black_box, sync::Arc, time::Instant};
use storage::Account;
