//! Holds the state of the development methods: snapshots, impersonated accounts, and the observer that prints calls.

use alloy_primitives::{Address, B256, map::AddressSet};
use evm::ConsoleTrace;
use pipeline::{BlockClient, Mining, NextBlockSettings};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
};
use transactions::RecoveredTx;

/// Maximum number of snapshots. If there are more, the oldest is dropped. Each contains the transactions of the pool.
pub const MAX_SNAPSHOTS: usize = 1024;

/// The state that `evm_revert` restores.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Number and hash of the head.
    pub head: (u64, B256),
    /// The transactions of the pool.
    pub pool: Vec<Arc<RecoveredTx>>,
    /// The clock, and the other settings of the next block.
    pub settings: NextBlockSettings,
    /// When blocks are produced.
    pub mining: Mining,
}

/// Maximum number of impersonated accounts.
pub const MAX_IMPERSONATED: usize = 10_000;

/// The accounts from which clients may send transactions without the private keys.
#[derive(Debug, Default)]
struct Impersonated {
    all: bool,
    accounts: AddressSet,
}

/// A call that was executed for a client.
#[derive(Debug)]
pub struct ObservedCall<'a> {
    /// The JSON-RPC method.
    pub method: &'static str,
    /// The caller.
    pub from: Address,
    /// The callee; `None` for a creation.
    pub to: Option<Address>,
    /// The outcome and the console messages of the call; `None` if it is invalid or takes too long.
    pub trace: Option<ConsoleTrace>,
    /// The error that the client receives if the call was not executed.
    pub error: Option<&'a str>,
}

/// Receives the calls of clients. It runs on the thread of the call, so it must not block.
pub trait CallObserver: fmt::Debug + Send + Sync {
    /// Receives a call.
    fn observe(&self, call: &ObservedCall<'_>);
}

#[derive(Debug, Default)]
struct Snapshots {
    last: u64,
    taken: BTreeMap<u64, Snapshot>,
}

/// The state of the development methods.
#[derive(Debug)]
pub struct Development {
    /// Controls the blocks and the head.
    pub blocks: BlockClient,
    /// Receives the calls that are executed for clients; `None` if they are not printed.
    pub observer: Option<Arc<dyn CallObserver>>,
    /// Whether transactions and calls are printed. Clients can change this.
    pub shown: Arc<AtomicBool>,
    snapshots: Mutex<Snapshots>,
    impersonated: Mutex<Impersonated>,
    /// Held while the head is changed, so that two clients do not change it at the same time.
    pub changing: tokio::sync::Mutex<()>,
}

impl Development {
    /// Creates the state without snapshots and without an observer of calls.
    pub fn new(blocks: BlockClient) -> Self {
        Self {
            blocks,
            observer: None,
            shown: Arc::new(AtomicBool::new(true)),
            snapshots: Mutex::default(),
            impersonated: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// Returns whether clients may send transactions from an account without its key.
    pub fn impersonates(&self, account: Address) -> bool {
        let impersonated = self.impersonated.lock().unwrap_or_else(PoisonError::into_inner);
        impersonated.all || impersonated.accounts.contains(&account)
    }

    /// Allows clients to send transactions from an account. Returns `false` if there are [`MAX_IMPERSONATED`] others.
    pub fn impersonate(&self, account: Address) -> bool {
        let mut impersonated = self.impersonated.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = impersonated.accounts.len() < MAX_IMPERSONATED;
        if fits {
            impersonated.accounts.insert(account);
        }
        fits || impersonated.accounts.contains(&account)
    }

    /// Stops impersonating an account, and returns whether it was impersonated.
    pub fn stop_impersonating(&self, account: Address) -> bool {
        let mut impersonated = self.impersonated.lock().unwrap_or_else(PoisonError::into_inner);
        impersonated.accounts.remove(&account)
    }

    /// Sets whether clients may send transactions from every account.
    pub fn impersonate_all(&self, all: bool) {
        self.impersonated.lock().unwrap_or_else(PoisonError::into_inner).all = all;
    }

    /// Stores a snapshot, and returns its number. The first number is 1.
    pub fn keep(&self, snapshot: Snapshot) -> u64 {
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        snapshots.last += 1;
        let number = snapshots.last;
        snapshots.taken.insert(number, snapshot);
        if snapshots.taken.len() > MAX_SNAPSHOTS {
            snapshots.taken.pop_first();
        }
        number
    }

    /// Removes and returns a snapshot, and drops all later ones, as anvil and Hardhat do.
    pub fn take(&self, number: u64) -> Option<Snapshot> {
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = snapshots.taken.remove(&number)?;
        snapshots.taken.split_off(&number);
        Some(snapshot)
    }

    /// Drops all snapshots.
    pub fn forget(&self) {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner).taken.clear();
    }
}
