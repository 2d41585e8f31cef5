//! Runs the interface tests against a replica: with `EVMD_TEST_REPLICA=1`, a [`super::Node`] that produces blocks of a
//! native chain produces them in a second pipeline, and the servers that the test uses belong to a replica of it.

use super::{MAX_WAIT, any_port, config};
use crate::common::producing;
use budget::Budget;
use config::{Config, Verification};
use home::Home;
use pipeline::{Certify, Options, Pipeline, TransactionForwarder};
use replication::{FollowContext, Follower, Forwarder, Roots, SourceContext, Terms};
use rpc_eth::CallForwarder;
use server::listen;
use std::{fs, path::Path, sync::Arc, time::Duration};

/// Whether the tests run against replicas.
pub(crate) fn is_tested() -> bool {
    std::env::var_os("EVMD_TEST_REPLICA").is_some_and(|value| value == "1")
}

/// The node that produces the blocks of a replica.
pub(crate) struct Producer {
    pipeline: Pipeline,
    rpc: rpc::Servers,
    source: listen::Server,
    _home: Home,
}

/// A pipeline that follows a producer.
pub(crate) struct Replica {
    pub(crate) pipeline: Pipeline,
    pub(crate) home: Home,
    pub(crate) forwarder: Arc<dyn CallForwarder>,
    pub(crate) producer: Producer,
    pub(crate) follower: Follower,
}

impl Replica {
    /// Starts a producer on `home` with these options and a replica of it, and waits until the replica has its head.
    pub(crate) async fn start(home: Home, options: Options, settings: &Config) -> Self {
        let certifier =
            home.certifier().unwrap().map(|certifier| Arc::new(certifier) as Arc<dyn Certify>);
        let folder = home.path.join("replica");
        copy_chain(&home.path, &folder);
        let mut followed = Home::open(&folder).unwrap();
        followed.config = home.config.clone();
        let backend = options.backend;
        let pipeline = Pipeline::start(&home, Options { certifier, ..options }).unwrap();
        let producer = Producer::serve(home, pipeline, settings).await;
        let authority = followed.authority().unwrap().expect("the blocks are signed");
        let forwarder = Arc::new(Forwarder::new(authority.genesis(), true));
        let terms = Arc::new(Terms::new(followed.terms(), authority));
        let options = Options {
            forwarder: Some(Arc::clone(&forwarder) as Arc<dyn TransactionForwarder>),
            ..producing(None)
        };
        let pipeline = Pipeline::start(&followed, options).unwrap();
        let context = FollowContext {
            spec: Arc::clone(&followed.spec),
            terms,
            published: pipeline.published.clone(),
            blocks: pipeline.blocks().unwrap(),
            forwarder: Arc::clone(&forwarder),
            backend,
            verification: Verification::All,
            sources: vec![format!("http://{}", producer.source.address)],
            roots: Roots::default(),
            max_lag: Duration::from_secs(3_600),
        };
        let follower = Follower::start(context).unwrap();
        let reaching = async {
            while pipeline.published.following().is_none_or(|following| following.is_behind) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(MAX_WAIT, reaching).await.expect("the replica reaches the head");
        Self { pipeline, home: followed, forwarder, producer, follower }
    }
}

impl Producer {
    async fn serve(home: Home, pipeline: Pipeline, settings: &Config) -> Self {
        let budget = Budget::new(settings);
        let context = rpc_eth::Context {
            spec: Arc::clone(&home.spec),
            published: pipeline.published.clone(),
            pool: pipeline.client(),
            monitor: pipeline.monitor(),
            pool_limits: settings.mempool.limits(),
            gas_cap: settings.json_rpc.gas_cap,
            feehistory_cap: settings.json_rpc.feehistory_cap,
            endpoints: settings.endpoints(),
            signers: None,
            mining: None,
            development: None,
            inclusions: Arc::default(),
            forwarder: None,
            budget: Arc::clone(&budget),
            caches: home.caches.clone(),
        };
        let rpc = rpc::serve(&config().json_rpc, None, None, context).unwrap();
        let (published, client) = (pipeline.published.clone(), pipeline.client());
        let genesis_hash = home.genesis_hash().unwrap();
        let terms = home.authority().unwrap();
        let terms = terms.map(|authority| Arc::new(Terms::new(home.terms(), authority)));
        let calls = rpc.local_calls();
        let context =
            SourceContext { genesis_hash, published, pool: client, calls, terms, tls: None };
        let source = replication::serve(any_port().await, &budget, context);
        Self { pipeline, rpc, source, _home: home }
    }

    pub(crate) fn ingest_address(&self) -> Option<std::net::SocketAddr> {
        self.pipeline.ingest_address
    }

    pub(crate) async fn stop(self) {
        self.pipeline.stop();
        self.rpc.stop().await;
        self.source.stop().await;
        self.pipeline.join().unwrap();
    }
}

/// Copies the LMDB environments and the genesis of a home folder. No process may be writing to them.
fn copy_chain(from: &Path, to: &Path) {
    for name in ["chain", "index"] {
        fs::create_dir_all(to.join(name)).unwrap();
        fs::copy(from.join(name).join("data.mdb"), to.join(name).join("data.mdb")).unwrap();
    }
    fs::copy(from.join("genesis.json"), to.join("genesis.json")).unwrap();
}
