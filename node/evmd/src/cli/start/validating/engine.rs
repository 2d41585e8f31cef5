//! Starts the consensus engine of a validator.

use anyhow::{Context, anyhow};
use config::ValidatorAddress;
use consensus::{
    Clock, SystemTimeSource,
    validators::{Peer, Timeouts, Validator, ValidatorOptions},
};
use home::{Home, validator_key};
use pipeline::{Certify, Pipeline};
use state::{Voting, stored};
use std::{path::Path, sync::Arc};
use validator::{
    EvidenceFile, FinalCertificates, PipelineChain, ValidatorAccounts, encode, folder,
};

/// The certificates of final blocks, which the engine and the pipeline share.
pub(in super::super) struct Prepared {
    certificates: Arc<FinalCertificates>,
}

impl Prepared {
    #[expect(clippy::unnecessary_wraps, reason = "without the engine it fails")]
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self { certificates: Arc::default() })
    }

    /// Returns the certifier that stores the certificates of final blocks.
    pub(in super::super) fn certifier(&self) -> Arc<dyn Certify> {
        Arc::clone(&self.certificates) as Arc<dyn Certify>
    }

    /// Starts the engine on the pipeline, which must have been started with `given_blocks`.
    pub(in super::super) fn start(
        self,
        home: &Home,
        pipeline: &Pipeline,
    ) -> anyhow::Result<Validator> {
        let key = validator_key(&home.path)?.context("validator.key was removed")?;
        let own = key.public();
        let gov = &home.spec.native().context("the chain has no validators")?.gov;
        let config = &home.config;
        let is_other = |peer: &&ValidatorAddress| peer.key != own;
        let peers = config.p2p.peers.iter().filter(is_other).map(|peer| Peer {
            key: peer.key.bytes().0,
            host: peer.host.clone(),
            port: peer.port,
        });
        let view = pipeline.published.load();
        let genesis = stored::block(&view.blocks()?, 0)?;
        let keys = || gov.consensus_keys().into_iter().map(|key| key.bytes());
        let pace = config.engine.block_time();
        let options = ValidatorOptions {
            folder: folder(&home.path),
            genesis_hash: genesis.hash,
            genesis: encode(&genesis),
            key: *key.to_bytes(),
            validators: keys().map(|key| key.0).collect(),
            listen: config.p2p.address.address().context("p2p.address is off")?,
            peers: peers.collect(),
            max_block_bytes: chain::MAX_BLOCK_BYTES,
            pace,
            timestamp_step: home.spec.rules.timestamp_step(),
            timeouts: Timeouts::with_pace(pace),
            voting: Arc::new(Voting::new(keys().collect())),
        };
        let blocks = pipeline.blocks().context("the pipeline was started without given_blocks")?;
        let (pool, published) = (pipeline.client(), pipeline.published.clone());
        published.vote(own.bytes(), Arc::clone(&options.voting));
        let voting = Arc::clone(&options.voting);
        let evidence = EvidenceFile::open(&home.path)?;
        let (status, max_step) =
            (pipeline.monitor().clock_status(), config.engine.max_clock_step());
        let clock = Clock::new(SystemTimeSource::boxed(), max_step, status);
        let certificates = self.certificates;
        let accounts = ValidatorAccounts::new(gov, own)
            .context("validator.key is not the key of a validator in the genesis")?;
        let recorded = (evidence, clock);
        let chain =
            PipelineChain::new(blocks, pool, published, certificates, voting, recorded, accounts);
        Ok(Validator::start(options, chain)?)
    }
}

/// Returns the error of a node whose engine has ended without a shutdown.
pub(in super::super) fn engine_has_ended(home: &Path) -> anyhow::Error {
    let files = Validator::engine_files(&folder(home));
    anyhow!(
        "the consensus engine has ended: the log has the reason. If its files are damaged, remove {} and start again, on one \
         validator at a time: the other validators send the blocks that are missing then",
        files.display()
    )
}
