//! Executes the requests of the consensus engine with the pipeline.

use crate::{
    evidence::{Evidence, EvidenceFile, EvidenceKind},
    transaction_messages::{self, OwnTransactions},
};
use alloy_primitives::{
    Address, B256, Bytes,
    map::{B256HashSet, B256Map},
};
use certificates::{BlockId, PublicKey};
use chain::{GovParams, block::Block};
use consensus::{
    Clock,
    validators::{CertifiedBlock, Chain, Contradiction, ContradictionKind},
};
use pipeline::{
    BlockClient, BlockPart, BuildError, Certify, GiveError, KnownTransactions, PoolClient,
    UndoError, UndoneTransactions,
};
use state::{
    Published, View, Voting,
    stored::{self, StoredError},
};
use std::{
    future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use transactions::RecoveredTx;

/// Time after which a request is repeated if the pipeline was too busy.
const BUSY_WAIT: Duration = Duration::from_millis(5);

/// A block that is valid and not final.
#[derive(Clone, Debug)]
struct ValidBlock {
    number: u64,
    parent: B256,
    transactions: Arc<B256HashSet>,
    /// When this node proposed it or received it.
    since: Instant,
}

/// The pipeline, as the consensus engine sees it.
#[derive(Clone, Debug)]
pub struct PipelineChain {
    blocks: BlockClient,
    pool: PoolClient,
    published: Published,
    /// Valid blocks above the head. The pipeline has their states.
    valid: Arc<Mutex<B256Map<ValidBlock>>>,
    own: Arc<OwnTransactions>,
    certificates: Arc<FinalCertificates>,
    voting: Arc<Voting>,
    evidence: Arc<Mutex<EvidenceFile>>,
    clock: Arc<Mutex<Clock>>,
    accounts: Arc<ValidatorAccounts>,
}

/// The accounts that blocks name as their fee recipients.
#[derive(Clone, Debug)]
pub struct ValidatorAccounts {
    /// The account of this validator.
    own: Address,
    /// The accounts of all validators, by consensus key.
    by_key: B256Map<Address>,
}

impl ValidatorAccounts {
    /// Returns the accounts of the operators; `None` if `own` is not the key of a validator.
    pub fn new(gov: &GovParams, own: PublicKey) -> Option<Self> {
        let validators = gov.consensus_validators();
        let by_key: B256Map<_> =
            validators.map(|(validator, key)| (key.bytes(), validator.address)).collect();
        Some(Self { own: *by_key.get(&own.bytes())?, by_key })
    }
}

/// The certificates of final blocks, until the blocks are stored.
#[derive(Debug, Default)]
pub struct FinalCertificates(Mutex<B256Map<Bytes>>);

impl FinalCertificates {
    fn put(&self, block: B256, certificate: Bytes) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(block, certificate);
    }
}

impl Certify for FinalCertificates {
    fn certificate(&self, block: BlockId) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&block.hash)
    }
}

impl PipelineChain {
    /// Creates a chain for the engine. The pipeline must store `certificates` with its blocks.
    pub fn new(
        blocks: BlockClient,
        pool: PoolClient,
        published: Published,
        certificates: Arc<FinalCertificates>,
        voting: Arc<Voting>,
        (evidence, clock): (EvidenceFile, Clock),
        accounts: ValidatorAccounts,
    ) -> Self {
        let own = Arc::new(OwnTransactions::new(&pool));
        let (evidence, clock) = (Arc::new(Mutex::new(evidence)), Arc::new(Mutex::new(clock)));
        let (valid, accounts) = (Arc::default(), Arc::new(accounts));
        Self {
            blocks,
            pool,
            published,
            valid,
            own,
            certificates,
            voting,
            evidence,
            clock,
            accounts,
        }
    }

    /// Whether a block names the account of the validator that proposed it.
    fn names_proposer(&self, block: &Block, proposer: B256) -> bool {
        let expected = self.accounts.by_key.get(&proposer);
        let miner = block.header.beneficiary;
        let names = expected == Some(&miner);
        if !names {
            tracing::warn!(%miner, ?expected, %proposer, "a proposed block does not name the account of its proposer");
        }
        names
    }

    fn valid(&self) -> MutexGuard<'_, B256Map<ValidBlock>> {
        self.valid.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert_valid(&self, block: &Block, hashes: &[B256], since: Instant) {
        let transactions = hashes.iter().copied().collect();
        let (number, parent) = (block.header.number, block.header.parent_hash);
        let valid = ValidBlock { number, parent, transactions: Arc::new(transactions), since };
        self.valid().insert(block.hash, valid);
    }

    /// The hashes of the transactions of `last` and its valid ancestors, which are still in the pool.
    fn taken(&self, last: B256) -> Vec<Arc<B256HashSet>> {
        let valid = self.valid();
        let path = std::iter::successors(valid.get(&last), |block| valid.get(&block.parent));
        path.map(|block| Arc::clone(&block.transactions)).collect()
    }

    /// The best transactions of the pool for a block on `parent`.
    async fn candidates(&self, parent: B256) -> Vec<Arc<RecoveredTx>> {
        let taken = self.taken(parent);
        let found = self.pool.candidates_without(BlockPart::WHOLE, taken).await.ok().flatten();
        found.unwrap_or_default().txs
    }

    /// Drops the blocks that are not ancestors of a block on `parent`, because the pipeline has too many. Most of them
    /// are in branches that the validators have abandoned. If one is needed again, it is checked again.
    fn drop_other_branches(&self, parent: B256) {
        let mut valid = self.valid();
        let path = std::iter::successors(Some(parent), |hash| Some(valid.get(hash)?.parent));
        let path: B256HashSet = path.collect();
        valid.retain(|hash, _| {
            // If the pipeline refuses the request because others are waiting, the next call repeats it.
            path.contains(hash) || self.blocks.abandon(*hash).is_err()
        });
    }

    /// The transactions that the pool has, so that their signatures are not recovered again. Cosmos transactions are
    /// left out: those in the pool have amounts in the unit of the next block of this node.
    async fn known(&self, hashes: &[B256]) -> KnownTransactions {
        let known = self.pool.known(hashes.to_vec()).await;
        let known = known.unwrap_or_else(|_| vec![None; hashes.len()]);
        known.into_iter().map(|tx| tx.filter(|tx| tx.cosmos.is_none())).collect()
    }

    /// Executes a block on its parent. `None` if its parent is not known.
    async fn execute(&self, block: &Block) -> Option<bool> {
        let since = Instant::now();
        let hashes = hashes(block);
        loop {
            match self.blocks.give_with(block.clone(), self.known(&hashes).await).await {
                Ok(()) => {
                    self.insert_valid(block, &hashes, since);
                    return Some(true);
                }
                Err(GiveError::Invalid(fault)) => {
                    tracing::warn!(%fault, "a proposed block is invalid");
                    return Some(false);
                }
                Err(GiveError::UnknownParent(_)) => return None,
                Err(GiveError::Busy(_)) => {
                    self.drop_other_branches(block.header.parent_hash);
                    tokio::time::sleep(BUSY_WAIT).await;
                }
                // The node is stopping, and also stops the engine.
                Err(_) => return future::pending().await,
            }
        }
    }

    /// Makes a valid block the head, and waits until it is durable. Returns false if the block is not known.
    async fn choose(&self, block: B256) -> bool {
        loop {
            match self.blocks.choose(block, UndoneTransactions::Return).await {
                Ok(_) => return true,
                Err(UndoError::Unknown(_)) => return false,
                Err(UndoError::Busy) => tokio::time::sleep(BUSY_WAIT).await,
                Err(UndoError::Stopping) => return future::pending().await,
                Err(error) => panic!("block {block} is final, and the node cannot follow: {error}"),
            }
        }
    }
}

impl Chain for PipelineChain {
    fn head(&self) -> u64 {
        self.published.load().number()
    }

    fn newest_certified(&self) -> Option<CertifiedBlock> {
        newest_certified(&self.published.load())
            .unwrap_or_else(|error| panic!("the newest blocks cannot be read: {error}"))
    }

    fn now(&self, _: SystemTime) -> SystemTime {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).now()
    }

    async fn build(&self, parent: B256, timestamp: u64) -> Option<Bytes> {
        let since = Instant::now();
        let txs = self.candidates(parent).await;
        let beneficiary = Some(self.accounts.own);
        match self.blocks.build(parent, timestamp, beneficiary, txs).await {
            Ok(block) => {
                self.insert_valid(&block, &hashes(&block), since);
                Some(encode(&block))
            }
            Err(BuildError::Stopping) => None,
            Err(error) => {
                self.drop_other_branches(parent);
                tracing::warn!(%error, "cannot propose a block");
                None
            }
        }
    }

    async fn knows(&self, block: B256) -> bool {
        if self.valid().contains_key(&block) {
            return true;
        }
        let view = self.published.load();
        let number = view.block_number(block);
        number.is_ok_and(|number| number.is_some())
    }

    async fn check(&self, block: Bytes, proposer: B256) -> bool {
        let block = Block::decode(&block).expect("the engine decoded it");
        if !self.names_proposer(&block, proposer) {
            return false;
        }
        match self.execute(&block).await {
            Some(is_valid) => is_valid,
            // The block is in a branch that the other validators have abandoned.
            None => future::pending().await,
        }
    }

    async fn finalize(&self, block: Bytes, certificate: Option<Bytes>) {
        let block = Block::decode(&block).expect("the engine decoded it");
        let (number, hash) = (block.header.number, block.hash);
        let head = self.published.load();
        if head.number() >= number {
            let stored = head.blocks().and_then(|blocks| blocks.hash(number));
            let stored =
                stored.unwrap_or_else(|error| panic!("block {number} cannot be read: {error}"));
            assert_eq!(
                stored,
                Some(hash),
                "block {number} is final, and another one is stored here"
            );
            return;
        }
        if let Some(certificate) = certificate {
            self.certificates.put(hash, certificate);
        }
        if !self.choose(hash).await {
            // The block was not checked since the node started.
            match self.execute(&block).await {
                Some(true) => {}
                Some(false) => panic!("block {number} {hash} is final and not valid here"),
                None => panic!(
                    "block {number} is final, and this node has only block {}: start it again",
                    head.number()
                ),
            }
            assert!(self.choose(hash).await, "block {number} {hash} was just found valid");
        }
        let mut valid = self.valid();
        if let Some(block) = valid.get(&hash) {
            self.voting.finalized(block.since.elapsed());
        }
        valid.retain(|_, valid| valid.number > number);
    }

    fn contradicted(&self, contradiction: Contradiction) {
        let Contradiction { validator, view, kind, votes } = contradiction;
        let (consensus_key, _) = self.voting.read().validators[validator];
        tracing::error!(
            %consensus_key, view, ?kind,
            "a validator has sent two votes that contradict each other: `evmd validator evidence` prints them"
        );
        let pair = Evidence {
            time: UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs()),
            consensus_key,
            view,
            votes: match kind {
                ContradictionKind::TwoNotarized => EvidenceKind::TwoNotarized,
                ContradictionKind::TwoFinalized => EvidenceKind::TwoFinalized,
                ContradictionKind::FinalizedAndNullified => EvidenceKind::FinalizedAndNullified,
            },
            signed: votes,
        };
        let mut evidence = self.evidence.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = evidence.add(pair) {
            tracing::error!(%error, "cannot store votes that contradict each other");
        }
    }

    async fn outgoing_transactions(&self) -> Bytes {
        self.own.next_message().await
    }

    async fn incoming_transactions(&self, encoded: Bytes) {
        match transaction_messages::decode(&encoded) {
            Ok(txs) => transaction_messages::submit(&self.pool, txs).await,
            Err(error) => {
                tracing::warn!(%error, "dropped a message that is not a list of transactions");
            }
        }
    }
}

/// The newest block that has a certificate of its own.
fn newest_certified(view: &View) -> Result<Option<CertifiedBlock>, StoredError> {
    let blocks = view.blocks()?;
    let Some((number, certificate)) = blocks.newest_certificate()? else { return Ok(None) };
    let block = encode(&stored::block(&blocks, number)?);
    Ok(Some(CertifiedBlock { block, certificate }))
}

fn hashes(block: &Block) -> Vec<B256> {
    block.transactions.iter().map(alloy_primitives::keccak256).collect()
}

/// The RLP encoding of a block.
pub fn encode(block: &Block) -> Bytes {
    chain::block::join(&alloy_rlp::encode(&block.header), &block.encode_body()).into()
}
