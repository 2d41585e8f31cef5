//! Publishes an immutable [`View`] of the chain and the state as of one block. Each commit replaces it atomically.
//! A request, or a whole JSON-RPC batch, holds one view.
//!
//! This crate writes to the databases only in [`write_layers`], and never waits for a stage.

mod appearances;
mod chain_view;
mod following;
mod fork;
mod layer;
mod live;
pub mod parties;
mod recent;
mod state;
pub mod stored;
mod trie;
mod undone;
mod voting;

pub use appearances::{Appearances, Emissions, called};
pub use chain_view::ChainView;
pub use following::{Following, FollowingReading};
pub use fork::Fork;
pub use layer::{Layer, LayerId, write_layers};
pub use live::{CHECKPOINT_CHANGES, CHECKPOINT_RECORDS, StateTrie};
pub use recent::{RecentReader, RecentState};
pub use state::{StateReader, StateView};
pub use trie::{MAX_UNDONE_RECORDS, TrieReader, TrieViewError};
pub use undone::{UndoneBlock, UndoneBranch};
pub use voting::{Voting, VotingReading};

use undone::UndoneBranches;

use alloy_consensus::Header;
use alloy_primitives::B256;
use arc_swap::ArcSwap;
use chain::Native;
use feemarket::Market;
use modules::{
    Modules, ModulesError,
    gov::{self, StoreError},
};
use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};
use storage::{ChainReader, ReadError};
use tokio::sync::watch;

/// The newest block of a view, with the data for the next one.
#[derive(Clone, Debug)]
pub struct Head {
    /// The hash of the block.
    pub hash: B256,
    /// The header of the block.
    pub header: Arc<Header>,
    /// The base fee of the next block, in wei per gas; zero if the rules have none.
    pub next_base_fee: u64,
    /// The modules after the block; `None` on an Ethereum chain.
    pub modules: Option<Arc<Modules>>,
}

impl Head {
    /// Returns the fee market after the block; `None` on an Ethereum chain.
    pub fn market(&self) -> Option<&Market> {
        self.modules.as_deref().map(|modules| &modules.market)
    }
}

/// Why the modules after a block are not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModulesViewError {
    /// The chain could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The block has no module row.
    #[error("block {0} has no module row")]
    Missing(u64),
    /// The module row is damaged.
    #[error(transparent)]
    Row(#[from] ModulesError),
    /// The governance state is damaged.
    #[error(transparent)]
    Gov(#[from] StoreError),
}

/// The chain and the state as of one block.
#[derive(Clone, Debug)]
pub struct View {
    /// The newest block.
    pub head: Head,
    /// The state after the newest block.
    pub state: StateView,
    /// Blocks, receipts and fee rows. It may contain newer blocks than `head`, which are not part of this
    /// view.
    pub chain: ChainView,
    /// Number of branches that had been undone when the view was published, see [`Published::undone`].
    pub undone: u64,
}

impl View {
    /// Returns the number of the newest block.
    pub fn number(&self) -> u64 {
        self.head.header.number
    }

    /// Returns the modules of a native chain after block `number`.
    ///
    /// # Errors
    /// [`ModulesViewError`].
    pub fn modules_after(
        &self,
        native: &Native,
        number: u64,
    ) -> Result<Arc<Modules>, ModulesViewError> {
        if let Some(modules) = self.head.modules.as_ref().filter(|_| number == self.number()) {
            return Ok(Arc::clone(modules));
        }
        let blocks = self.blocks()?;
        let record = blocks.module(number)?.ok_or(ModulesViewError::Missing(number))?;
        let mut modules = Modules::of_bytes(&record, native)?;
        modules.gov = gov::store::load(&blocks, native, number)?;
        Ok(Arc::new(modules))
    }

    /// Does the same as [`Self::modules_after`], but does not load the governance state, which may have megabytes
    /// and is not needed by calls or parameter queries.
    ///
    /// # Errors
    /// [`ModulesViewError`].
    pub fn parameters_after(
        &self,
        native: &Native,
        number: u64,
    ) -> Result<Arc<Modules>, ModulesViewError> {
        if let Some(modules) = self.head.modules.as_ref().filter(|_| number == self.number()) {
            return Ok(Arc::clone(modules));
        }
        let record = self.blocks()?.module(number)?.ok_or(ModulesViewError::Missing(number))?;
        Ok(Arc::new(Modules::of_bytes(&record, native)?))
    }

    /// Opens a reader of blocks.
    pub fn blocks(&self) -> Result<ChainReader, ReadError> {
        self.chain.reader()
    }

    /// Returns the number of the block with this hash.
    pub fn block_number(&self, hash: B256) -> Result<Option<u64>, ReadError> {
        if hash == self.head.hash {
            return Ok(Some(self.number()));
        }
        let layer = self.state.layers().iter().find(|layer| layer.hash() == Some(hash));
        if let Some(layer) = layer {
            return Ok(Some(layer.number()));
        }
        let number = self.state.index().reader()?.block_number(hash)?;
        Ok(number.filter(|number| *number <= self.number()))
    }

    /// Returns the block number and the index of the transaction with this hash.
    pub fn tx_location(&self, hash: B256) -> Result<Option<(u64, u32)>, ReadError> {
        for layer in self.state.layers().iter().rev() {
            if let Some(index) = layer.tx_index(hash) {
                return Ok(Some((layer.number(), index)));
            }
        }
        let location = self.state.index().reader()?.tx_location(hash)?;
        Ok(location.filter(|(number, _)| *number <= self.number()))
    }
}

/// The current view, shared between the stage that publishes it and its readers.
#[derive(Clone, Debug)]
pub struct Published(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    view: ArcSwap<View>,
    undone: UndoneBranches,
    /// The time at which the view was published.
    since: ArcSwap<Instant>,
    head: watch::Sender<u64>,
    following: OnceLock<Arc<Following>>,
    voting: OnceLock<(B256, Arc<Voting>)>,
}

impl Published {
    /// Publishes the first view.
    pub fn new(view: View) -> Self {
        let head = watch::Sender::new(view.number());
        let since = ArcSwap::from_pointee(Instant::now());
        let (view, undone) = (ArcSwap::from_pointee(view), UndoneBranches::default());
        Self(Arc::new(Shared {
            view,
            undone,
            since,
            head,
            following: OnceLock::new(),
            voting: OnceLock::new(),
        }))
    }

    /// Records that this node follows others. Only its follower calls this, once.
    ///
    /// # Panics
    /// If it is called twice.
    pub fn follow(&self, following: Arc<Following>) {
        self.0.following.set(following).expect("a node has one follower");
    }

    /// Records that this node is a validator with this key. Only the start of the consensus engine calls this, once.
    ///
    /// # Panics
    /// If it is called twice.
    pub fn vote(&self, key: B256, voting: Arc<Voting>) {
        self.0.voting.set((key, voting)).expect("a node is one validator");
    }

    /// Returns what this validator observed of the consensus; `None` if the node is not a validator.
    pub fn voting(&self) -> Option<VotingReading> {
        self.0.voting.get().map(|(_, voting)| voting.read())
    }

    /// Returns the consensus key of this node, if it is a validator.
    pub fn validator_key(&self) -> Option<B256> {
        self.0.voting.get().map(|(key, _)| *key)
    }

    /// Returns how far this node is behind its source; `None` if it does not follow others.
    pub fn following(&self) -> Option<FollowingReading> {
        self.0.following.get().map(|following| following.read(self.0.view.load().number()))
    }

    /// Replaces the view by one of a later block. Only the commit stage calls this.
    pub fn publish(&self, view: View) {
        let undone = self.0.view.load().undone;
        self.replace(View { undone, ..view });
    }

    /// Replaces the view by that of an ancestor, after the blocks of the branch were removed from the chain. Only
    /// the commit stage calls this.
    pub fn publish_undo(&self, view: View, branch: UndoneBranch) {
        // The branch is added before the view is replaced, so that a reader of the view finds the branch.
        let undone = self.0.undone.add(branch);
        self.replace(View { undone, ..view });
    }

    /// Returns the branches that were undone after the first `seen` ones and before `view` was published, oldest
    /// first, without those that are no longer kept.
    pub fn undone(&self, seen: u64, view: &View) -> Vec<Arc<UndoneBranch>> {
        if seen == view.undone { Vec::new() } else { self.0.undone.between(seen, view.undone) }
    }

    fn replace(&self, view: View) {
        let number = view.number();
        self.0.view.store(Arc::new(view));
        self.0.since.store(Arc::new(Instant::now()));
        self.0.head.send_replace(number);
    }

    /// Returns the current view.
    pub fn load(&self) -> Arc<View> {
        self.0.view.load_full()
    }

    /// Returns the time since the current view was published.
    pub fn age(&self) -> Duration {
        self.0.since.load().elapsed()
    }

    /// Returns a receiver of the newest block number, which is sent after its view was published. Blocks that are
    /// published together cause one notification.
    pub fn heads(&self) -> watch::Receiver<u64> {
        self.0.head.subscribe()
    }
}
