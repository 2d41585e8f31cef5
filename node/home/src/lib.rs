//! Creates and opens home folders. A home folder holds the settings, the chain and index environments, and a lock that
//! excludes other processes. Opening a home replays the blocks that the index lacks, for example after a crash.

pub mod audit;
mod authority;
mod block_proof;
pub mod doctor;
mod environments;
mod future_head;
mod genesis_file;
mod init;
mod plain;
mod replay;
mod rules;
pub mod snapshot;
mod terms;
mod vacant;

pub use authority::{
    Certifier, PRODUCER_KEY_FILE, ProducerError, VALIDATOR_KEY_FILE, create_validator_key,
    producer_key, stored_authority, validator_key,
};
pub use block_proof::{BlockProof, MAX_PROOF_HEADERS, ProofError};
pub use environments::{ProgressLog, open_chain, open_environments, open_index};
pub use genesis_file::GENESIS_FILE;
pub use replay::{replay, replay_block, state_at};
pub use rules::stored_spec;
pub use rules::{AdoptError, RulesReport};
pub use terms::{MAX_TERMS, StartTermError, TermStore, read_key, read_or_create_key};
pub use vacant::{GenesisFile, check_for_restore};

use authority::{AUTHORITY_KEY, AfterRollback, after_rollback};
use environments::{open_for_writing, open_or_migrate_chain, remove_index, removed};

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawals;
use alloy_primitives::{B256, Bytes};
use alloy_rlp::Decodable;
use chain::{ChainSpec, Genesis, GenesisError, Native, block::Block};
use config::{Config, ConfigError, ForeignToken};
use evm::ExecutionCaches;
use feehistory::FeeRow;
use feehistory::fee_row;
use feemarket::store::Record;
use modules::{Modules, gov};
use platform::whole_file;
use state::{ChainView, Head, StateView, View};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use storage::{
    BlockRecord, ChainDb, ChainReader, HomeLock, IndexDb, OpenError, ReadError, WriteError,
};
use verify::Backend;

/// Value of `storage.undo-blocks` on a development chain if the setting is 0, for clients that revert to snapshots.
const DEV_UNDO_BLOCKS: usize = 64;
/// Key of the genesis file's text in the chain environment.
const GENESIS_KEY: &str = "genesis";
/// Folder of the index environment in the home folder.
pub const INDEX_FOLDER: &str = "index";
/// Folder of the chain environment in the home folder.
pub const CHAIN_FOLDER: &str = "chain";
/// File of the mempool's journal in the home folder.
pub const JOURNAL_FILE: &str = "mempool.journal";

/// Why a home folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// The settings are invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The minimum gas price is in a token that the chain does not have.
    #[error(transparent)]
    MinimumGasPrices(#[from] ForeignToken),
    /// An environment or the lock cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An environment cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An environment cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A genesis is invalid.
    #[error("{origin}: {source}")]
    Genesis {
        /// Where the genesis comes from.
        origin: String,
        /// Why it is invalid.
        source: GenesisError,
    },
    /// The vector code computes wrong results on this machine.
    #[error(transparent)]
    SelfTest(#[from] verify::SelfTestError),
    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The genesis file belongs to another chain.
    #[error(
        "{} belongs to another chain: block 0 of the file is {file}, block 0 of the chain in this home is \
         {chain}; restore the file of this chain, or create a separate home for the other chain (evmd init \
         --genesis FILE --home DIR)",
        path.display()
    )]
    OtherGenesis {
        /// The file.
        path: PathBuf,
        /// The hash of its block 0.
        file: B256,
        /// The hash of block 0 of the chain.
        chain: B256,
    },
    /// The genesis file has the same block 0 as the chain, but other rules.
    #[error(
        "{} belongs to another chain: block 0 is {chain} in both, but the `config` of the file differs from \
         that of the chain in this home; restore the file of this chain, or create a separate home for the \
         other chain (evmd init --genesis FILE --home DIR)",
        path.display()
    )]
    OtherRules {
        /// The file.
        path: PathBuf,
        /// The hash of block 0.
        chain: B256,
    },
    /// The genesis file of a folder without a chain cannot be used.
    #[error(
        "{}: {reason}; correct the file, or remove it: `evmd init` then creates a native chain with default parameters",
        path.display()
    )]
    UnusableGenesis {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The genesis file of a folder without a chain differs from the genesis of the chain that was to be
    /// created.
    #[error(
        "{} is the genesis of another chain (block 0 of the file is {file}, that of the requested chain \
         {wanted}, and `config` is compared too); begin the chain of this file with `evmd init` without \
         --genesis and --chain-id, or remove the file",
        path.display()
    )]
    GenesisFileInTheWay {
        /// The file.
        path: PathBuf,
        /// The hash of its block 0.
        file: B256,
        /// The hash of block 0 of the requested chain.
        wanted: B256,
    },
    /// The folder has no chain, but data of a missing one.
    #[error(
        "{} holds {found}, but no chain. If the chain is on a volume that is not mounted, mount it. To \
         begin a new chain instead, {}run `evmd init --home {}`",
        path.display(),
        if remove.is_empty() { String::new() } else { format!("remove {remove} and ") },
        path.display()
    )]
    ChainMissing {
        /// The folder.
        path: PathBuf,
        /// A description of what was found.
        found: String,
        /// What must be removed before another chain can be created; may be empty.
        remove: String,
    },
    /// The blocks of the only validator of a chain cannot be obtained again.
    #[error(
        "this home is the only validator of its chain, so no other node can send the removed blocks again, and the recorded votes \
         exclude others at their heights. To continue with other blocks, restore a snapshot into a new home and make a new record of \
         votes (docs/validators.md)"
    )]
    OnlyValidator,
    /// The newest block has a timestamp in the future.
    #[error(
        "the timestamp of the newest block, {number}, is {ahead} s ahead of the system clock (at most {limit} s \
         are accepted, engine.max-clock-step-s), and those of new blocks would be, too. Correct the system \
         clock{}, or accept it with `evmd start --accept-future-head`",
        keep.map_or_else(
            String::new,
            |keep| format!(", remove the blocks with such timestamps (`evmd rollback --height {keep}`)")
        )
    )]
    FutureHead {
        /// The number of the block.
        number: u64,
        /// By how much it is ahead, in seconds.
        ahead: u64,
        /// The limit, in seconds.
        limit: u64,
        /// The newest block within the limit, if there is one.
        keep: Option<u64>,
    },
    /// The index was built from other blocks.
    #[error(
        "the index belongs to another chain: block {number} is {index} in the index{}; rebuild it with \
         `evmd reindex`",
        chain.map_or_else(String::new, |hash| format!(" and {hash} in the chain"))
    )]
    OtherIndex {
        /// The newest block of the index.
        number: u64,
        /// Its hash in the index.
        index: B256,
        /// Its hash in the chain, if the chain has this block.
        chain: Option<B256>,
    },
    /// The folder already holds a chain.
    #[error("{} already holds a chain; choose another folder with --home", .0.display())]
    Exists(PathBuf),
    /// The target of a snapshot already exists.
    #[error("{} is there already; choose another folder", .0.display())]
    Taken(PathBuf),
    /// The disk has too little space for a snapshot.
    #[error(
        "{} has {free} free bytes, but a copy needs up to {bytes}, and {reserved} must stay free for the node: choose a \
         folder on a larger disk, or remove older snapshots",
        path.display()
    )]
    NoSpace {
        /// The folder for the snapshot.
        path: PathBuf,
        /// Bytes of both environments.
        bytes: u64,
        /// Bytes that must stay free.
        reserved: u64,
        /// Free bytes.
        free: u64,
    },
    /// The verification of a new snapshot has failed.
    #[error(
        "the copy in {} is damaged and was removed ({check}: {detail}): check the chain with `evmd doctor --verify` when the \
         node is stopped",
        path.display()
    )]
    DamagedCopy {
        /// The folder of the copy.
        path: PathBuf,
        /// The check that failed.
        check: &'static str,
        /// The fault.
        detail: String,
    },
    /// The folder of scheduled snapshots cannot be created.
    #[error(
        "snapshot.folder: cannot create {}: {source}; create it for the user of the node, mount its disk, or set \
         snapshot.every-blocks to 0. A systemd service also needs `ReadWritePaths=` for it",
        path.display()
    )]
    SnapshotFolder {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The verification of a snapshot that was restored has failed.
    #[error("the snapshot is damaged ({check}: {detail}): use another one")]
    DamagedSnapshot {
        /// The check that failed.
        check: &'static str,
        /// The fault.
        detail: String,
    },
    /// A snapshot could not be restored. Nothing of it is left in the home folder.
    #[error(
        "the snapshot {} cannot be restored, and nothing of it is left in {}: {source}",
        snapshot.display(), home.display()
    )]
    NotRestored {
        /// The folder of the snapshot.
        snapshot: PathBuf,
        /// The home folder.
        home: PathBuf,
        /// The fault.
        source: Box<Self>,
    },
    /// Another process is writing the same snapshot.
    #[error(
        "{} is being made by {}; wait until that process ends, or choose another folder",
        path.display(), pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
    )]
    BeingMade {
        /// The folder.
        path: PathBuf,
        /// The id of the process, if it is known.
        pid: Option<u32>,
    },
    /// The chain changed between the copies of its two environments.
    #[error(
        "another process rolled back the chain in {} while it was copied; run the command again",
        .0.display()
    )]
    RolledBack(PathBuf),
    /// The folder is not a snapshot.
    #[error(
        "{} is not a snapshot: it holds no chain; create a snapshot with `evmd snapshot create`, or name the \
         folder of one",
        .0.display()
    )]
    NoSnapshot(PathBuf),
    /// The folder holds no chain.
    #[error("{} holds no chain; create one with `evmd init`, or choose another with --home", .0.display())]
    Empty(PathBuf),
    /// The index is empty: `reindex` was interrupted, or the folder was restored without it.
    #[error(
        "the index of the chain in {} is not built; build it with `evmd reindex` or `evmd start`",
        .0.display()
    )]
    NoIndex(PathBuf),
    /// The folder holds blocks, but not the genesis of the chain.
    #[error("{} holds blocks, but its stored genesis is missing; restore a snapshot", .0.display())]
    NoGenesis(PathBuf),
    /// The node cannot sign blocks.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// A producer term cannot be started or added.
    #[error(transparent)]
    StartTerm(#[from] StartTermError),
    /// The producer terms in the chain environment cannot be used.
    #[error("the stored producer terms are damaged: {0}; restore a snapshot")]
    Authority(String),
    /// Blocks that were signed, and may have left the node, would be replaced.
    #[error(
        "blocks above {keep} are signed, and replicas may have them: add --new-term, which signs that the chain \
         continues after block {keep}, or start a new home folder"
    )]
    Signed {
        /// The newest block that would remain.
        keep: u64,
    },
    /// A new producer term has no use.
    #[error(
        "no block of this chain has been signed, so a new producer term is not needed: leave --new-term out"
    )]
    NothingSigned,
    /// A new producer term cannot be signed.
    #[error("a new term is signed with the key of the producer, which must be in {}", path.display())]
    NoTerm {
        /// The file.
        path: PathBuf,
    },
    /// A rollback would not remove any block.
    #[error("cannot roll back to block {keep}: the newest block is {head}")]
    NotBelow {
        /// The requested block.
        keep: u64,
        /// The newest block.
        head: u64,
    },
    /// A stored block does not decode, or its state changes do not result in its state root.
    #[error("stored block {number} is damaged: {reason}")]
    Damaged {
        /// The block.
        number: u64,
        /// What is wrong.
        reason: String,
    },
}

/// Blocks that were replayed when a home folder was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replayed {
    /// Number of blocks that the index did not have completely.
    pub blocks: u64,
    /// Number of their transactions.
    pub transactions: u64,
    /// Duration of the replay, including the check of state roots.
    pub elapsed: Duration,
}

/// An open home folder.
#[derive(Debug)]
pub struct Home {
    /// The folder.
    pub path: PathBuf,
    /// The settings of the folder.
    pub config: Config,
    /// The chain's rules.
    pub spec: Arc<ChainSpec>,
    /// The chain environment.
    pub chain: ChainDb,
    /// The index environment, flushed up to the head of the chain, except for blocks that may be undone
    /// (`storage.undo-blocks`).
    pub index: IndexDb,
    /// Blocks that the last run had not flushed.
    pub replayed: Replayed,
    /// The caches that executions share. `None` in plain mode (`EVMD_PLAIN=1`).
    pub caches: Option<Arc<ExecutionCaches>>,
    /// The lock of the folder. `None` only while the home is being opened.
    _lock: Option<HomeLock>,
}

impl Home {
    /// Returns whether the folder has a chain.
    pub fn exists(path: &Path) -> bool {
        whole_file::is_present(&path.join(CHAIN_FOLDER).join("data.mdb"))
    }

    /// Returns an error if the folder has no chain. An empty data file was truncated, or was being created when
    /// the process died; LMDB would take it for a new chain.
    pub fn require_chain(path: &Path) -> Result<(), HomeError> {
        let data = path.join(CHAIN_FOLDER).join("data.mdb");
        match std::fs::metadata(&data) {
            Err(_) => Err(HomeError::Empty(path.to_owned())),
            Ok(file) if file.len() == 0 => Err(OpenError::Truncated {
                path: data,
                expected: 1,
                found: 0,
                remedy: "restore a snapshot, or run `evmd init` again if it was interrupted",
            }
            .into()),
            Ok(_) => Ok(()),
        }
    }

    /// Opens a home folder and replays the blocks that the last run did not flush into the index.
    pub fn open(path: &Path) -> Result<Self, HomeError> {
        Self::require_chain(path)?;
        ensure_self_tested()?;
        let lock = HomeLock::acquire(path)?;
        Self::open_with(lock, path)
    }

    /// Does the same as [`Self::open`] with a folder that `lock` locks.
    pub fn open_with(lock: HomeLock, path: &Path) -> Result<Self, HomeError> {
        Ok(Self { _lock: Some(lock), ..Self::open_locked(path)? })
    }

    /// Does the same as [`Self::open`] with a folder whose lock the caller holds.
    fn open_locked(path: &Path) -> Result<Self, HomeError> {
        let config = Config::load(path)?;
        let (chain, index) = open_for_writing(path, &config)?;
        // A process that is killed during `init` leaves an environment without a first block, or without any
        // data. Another `init` completes it.
        let Some(text) = chain.meta(GENESIS_KEY)? else {
            return Err(match chain.reader()?.head_number()? {
                None => HomeError::Empty(path.to_owned()),
                Some(_) => HomeError::NoGenesis(path.to_owned()),
            });
        };
        if chain.reader()?.head()?.is_none() {
            let genesis = Genesis::from_json(&String::from_utf8_lossy(&text));
            let genesis = genesis.map_err(of_stored_genesis)?;
            chain.append(&[genesis_record(&genesis)])?;
        }
        check_index(&chain, &index)?;
        let spec = stored_spec(&chain, &text)?;
        let mut home = Self {
            path: path.to_owned(),
            config,
            spec: Arc::new(spec),
            chain,
            index,
            replayed: Replayed::default(),
            caches: plain::caches(),
            _lock: None,
        };
        if home.spec.is_development() && home.config.storage.undo_blocks == 0 {
            home.config.storage.undo_blocks = DEV_UNDO_BLOCKS;
        }
        let newest = home.chain.reader()?.head_number()?.unwrap_or_default();
        let newest = newest.saturating_sub(home.config.storage.undo_blocks as u64);
        let trie_bytes = home.config.storage.trie_cache_bytes();
        home.replayed = replay(&home.chain, &home.index, newest, trie_bytes)?;
        Ok(home)
    }

    /// Deletes the index, whatever format it has, and opens the home, which rebuilds the index.
    ///
    /// # Errors
    /// Those of [`Self::open`], and if the index cannot be removed.
    pub fn reindex(path: &Path) -> Result<Self, HomeError> {
        Self::require_chain(path)?;
        let lock = HomeLock::acquire(path)?;
        // The chain must be readable before the index is removed, because the index could be the only data left.
        let chain = open_or_migrate_chain(path, &Config::load(path)?)?;
        if chain.meta(GENESIS_KEY)?.is_none() {
            return Err(HomeError::Empty(path.to_owned()));
        }
        drop(chain);
        remove_index(path)?;
        drop(lock);
        Self::open(path)
    }

    /// Removes the blocks above `keep` from the chain of a home folder and opens it. Returns the number of removed
    /// blocks. If the index has such blocks, it is cleared first and rebuilt afterwards, so that it never contains a
    /// block that the chain lacks, even if this function is interrupted. The journal of the mempool is removed, because
    /// it may hold transactions of the removed blocks, which would be included again.
    ///
    /// If this home has the producer key and a removed block is signed or ends a term, `new_term` must be set: a new
    /// producer term then starts after block `keep`, because replicas refuse two blocks of one term at one height. With
    /// `new_term`, `keep` may be the head.
    ///
    /// # Errors
    /// If `keep` is too high, if a new term is needed but not allowed or cannot be signed, and as [`Self::open`].
    pub fn rollback(path: &Path, keep: u64, new_term: bool) -> Result<(Self, u64), HomeError> {
        Self::require_chain(path)?;
        let lock = HomeLock::acquire(path)?;
        let (chain, index) = open_for_writing(path, &Config::load(path)?)?;
        // Only the number is read, because the newest block may be the damaged one.
        let head = chain.reader()?.head_number()?.unwrap_or(0);
        if keep > head || keep == head && !new_term {
            return Err(HomeError::NotBelow { keep, head });
        }
        let after = after_rollback(path, &chain, keep, new_term)?;
        let stored = match after {
            AfterRollback::NewTerm(_) if !new_term => return Err(HomeError::Signed { keep }),
            AfterRollback::NeedsTerm(_) if new_term => {
                return Err(HomeError::NoTerm { path: path.join(PRODUCER_KEY_FILE) });
            }
            AfterRollback::NewTerm(stored) | AfterRollback::NeedsTerm(stored) => Some(stored),
            AfterRollback::Unchanged if new_term => return Err(HomeError::NothingSigned),
            AfterRollback::Unchanged => None,
        };
        let removed = remove_blocks(path, (&chain, &index), keep, stored)?;
        drop((chain, index, lock));
        Ok((Self::open(path)?, removed))
    }

    /// Returns the number of the newest block of a home folder whose node is stopped.
    ///
    /// # Errors
    /// If the folder has no chain, is locked, or cannot be read.
    pub fn head_of(path: &Path) -> Result<u64, HomeError> {
        Self::require_chain(path)?;
        let _lock = HomeLock::acquire(path)?;
        let chain = open_or_migrate_chain(path, &Config::load(path)?)?;
        let head = chain.reader()?.head_number()?;
        head.ok_or_else(|| HomeError::Empty(path.to_owned()))
    }

    /// Opens the environments without the lock, for a caller that only reads. A node may be running.
    pub fn attach(path: &Path) -> Result<(ChainDb, IndexDb), HomeError> {
        Self::require_chain(path)?;
        Ok(open_environments(path, &Config::load(path)?)?)
    }

    /// Returns the view at the head of the chain.
    pub fn view(&self) -> Result<View, HomeError> {
        let blocks = self.chain.reader()?;
        let (number, hash) = blocks.head()?.ok_or_else(|| HomeError::Empty(self.path.clone()))?;
        let head = head_at(&blocks, &self.spec, number)?;
        let flushed = self.index.reader()?.flushed()?.unwrap_or(number);
        let state = StateView::before(flushed + 1, self.index.clone());
        // Adds the blocks that may be undone: they are not in the index yet.
        let state = state_at(&blocks, state, number)?;
        let chain = ChainView::new(self.chain.clone(), number, hash);
        Ok(View { head, state, chain, undone: 0 })
    }
}

/// Removes the blocks above `keep`, and the index and the journal, which may contain them or their transactions. Writes
/// `stored`, the producer terms, in the transaction that removes the blocks.
fn remove_blocks(
    path: &Path,
    (chain, index): (&ChainDb, &IndexDb),
    keep: u64,
    stored: Option<Vec<u8>>,
) -> Result<u64, HomeError> {
    if index.reader()?.flushed()?.is_some_and(|flushed| flushed > keep) {
        index.wipe()?;
    }
    if chain.reader()?.head_number()? > Some(keep) {
        let journal = path.join(JOURNAL_FILE);
        removed(std::fs::remove_file(&journal), &journal)?;
    }
    Ok(match stored {
        None => chain.truncate_after(keep)?,
        Some(stored) => chain.truncate_after_and_put_meta(keep, AUTHORITY_KEY, &stored)?,
    })
}

/// Returns a stored block as the head of a view.
///
/// # Errors
/// If a row is missing or damaged.
pub fn head_at(blocks: &ChainReader, spec: &ChainSpec, number: u64) -> Result<Head, HomeError> {
    let damaged = |reason: String| HomeError::Damaged { number, reason };
    let missing = || damaged("a row of it is missing".to_owned());
    let (hash, header) = stored_header(blocks, number)?;
    let row = blocks.fees(number)?.ok_or_else(missing)?;
    let row = FeeRow::read(&row).map_err(|error| damaged(error.to_string()))?;
    let modules = match spec.native() {
        Some(native) => {
            let record = blocks.module(number)?.ok_or_else(missing)?;
            let mut modules = stored_modules(native, &header, &record).map_err(damaged)?;
            let gov = gov::store::load(blocks, native, number);
            modules.gov = gov.map_err(|error| damaged(error.to_string()))?;
            Some(Arc::new(modules))
        }
        None => None,
    };
    let next_base_fee = row.next_base_fee;
    Ok(Head { hash, header: Arc::new(header), next_base_fee, modules })
}

/// Returns the hash and the header of a stored block.
pub fn stored_header(blocks: &ChainReader, number: u64) -> Result<(B256, Header), HomeError> {
    let damaged = |reason: String| HomeError::Damaged { number, reason };
    let (hash, header) =
        blocks.header(number)?.ok_or_else(|| damaged("its header is missing".to_owned()))?;
    let header =
        Header::decode(&mut header.as_ref()).map_err(|error| damaged(error.to_string()))?;
    Ok((hash, header))
}

/// Decodes the modules stored with a block and checks them against its header.
pub fn stored_modules(native: &Native, header: &Header, record: &[u8]) -> Result<Modules, String> {
    let record = Record::from_bytes(record).map_err(|error| error.to_string())?;
    let root = record.root();
    if header.extra_data.as_ref() != root.as_slice() {
        return Err(format!("module root {root}, header {}", header.extra_data));
    }
    Modules::of_record(&record, native).map_err(|error| error.to_string())
}

/// Runs the self-test of the hash backend that this machine uses for state roots.
fn ensure_self_tested() -> Result<(), verify::SelfTestError> {
    verify::ensure_self_tested(Backend::detect().unwrap_or(Backend::Scalar))
}

/// Returns block 0 in stored form. Its state changes are the genesis accounts.
fn genesis_record(genesis: &Genesis) -> BlockRecord {
    let header = genesis.header();
    let modules = genesis.spec.native().map(Modules::genesis);
    let market = modules.as_ref().map(|modules| &modules.market);
    let module = genesis.spec.native().map(|native| {
        Modules::genesis(native).record(native, 0, std::iter::empty(), Vec::new()).to_bytes()
    });
    let module = module.unwrap_or_default();
    let withdrawals = header.withdrawals_root.map(|_| Withdrawals::default());
    let block = Block { withdrawals, ..Block::default() };
    BlockRecord {
        number: header.number,
        hash: header.hash_slow(),
        flags: storage::BlockFlags::NONE,
        header: alloy_rlp::encode(&header).into(),
        body: block.encode_body(),
        senders: Vec::new(),
        receipts: Vec::new(),
        changes: genesis.state().into(),
        fees: fee_row(&genesis.spec, &header, market, std::iter::empty()).to_bytes().into(),
        module,
        governance: Vec::new(),
        certificate: None,
    }
}

/// Returns the text of the genesis from which a chain was created.
pub fn stored_genesis(chain: &ChainDb) -> Result<Option<Bytes>, HomeError> {
    Ok(chain.meta(GENESIS_KEY)?)
}

fn of_stored_genesis(source: GenesisError) -> HomeError {
    HomeError::Genesis { origin: "the stored genesis".to_owned(), source }
}

/// Checks that the newest block of an index is a block of the chain.
pub fn check_index(chain: &ChainDb, index: &IndexDb) -> Result<(), HomeError> {
    let Some((number, hash)) = index.reader()?.flushed_block()? else { return Ok(()) };
    let stored = chain.reader()?.hash(number)?;
    if stored == Some(hash) {
        return Ok(());
    }
    Err(HomeError::OtherIndex { number, index: hash, chain: stored })
}

#[cfg(test)]
mod sigbus_tests;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_init_that_was_killed_is_finished_by_another() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let genesis = Genesis::native_dev(1_700_000_000);
        drop(open_environments(folder.path(), &Config::default()).expect("two environments"));
        assert!(matches!(Home::open(folder.path()), Err(HomeError::Empty(_))));
        let home = Home::init(folder.path(), &genesis).expect("a chain");
        drop(home);
        assert!(matches!(Home::init(folder.path(), &genesis), Err(HomeError::Exists(_))));
        Home::open(folder.path()).expect("the same chain");
    }
    #[test]
    fn an_index_of_another_chain_is_neither_used_nor_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [ours, theirs] = ["ours", "theirs"].map(|name| folder.path().join(name));
        let genesis = |time| Genesis::native_dev(time);
        drop(Home::init(&ours, &genesis(1_700_000_000)).expect("a chain"));
        drop(Home::init(&theirs, &genesis(1_700_000_001)).expect("another"));
        let index = |home: &Path| home.join(INDEX_FOLDER);
        std::fs::remove_dir_all(index(&ours)).expect("was there");
        std::fs::rename(index(&theirs), index(&ours)).expect("same file system");
        let error = Home::open(&ours).expect_err("of another chain");
        assert!(
            matches!(error, HomeError::OtherIndex { number: 0, chain: Some(_), .. }),
            "{error}"
        );
        assert!(error.to_string().contains("evmd reindex"), "{error}");
        drop(Home::reindex(&ours).expect("the index is built again"));

        // Prepares the folder as a killed restore leaves it: there is no chain yet.
        std::fs::remove_dir_all(theirs.join(CHAIN_FOLDER)).expect("was there");
        std::fs::remove_file(theirs.join(GENESIS_FILE)).expect("was there");
        std::fs::rename(index(&ours), index(&theirs)).expect("same file system");
        let home = Home::init(&theirs, &genesis(1_700_000_002)).expect("a third chain");
        assert_eq!(home.index.reader().expect("a reader").flushed().expect("flushed"), Some(0));
        check_index(&home.chain, &home.index).expect("its own index");
    }
}
