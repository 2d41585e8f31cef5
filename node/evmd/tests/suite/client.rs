//! Runs a node and its servers in the process of the test.

#![allow(dead_code, reason = "each test file uses its own part")]

mod replica;

use crate::common::{GENESIS_TIME, native_home, producing};
use budget::Budget;
use chain::Genesis;
use config::{Config, Listen};
use cosmos_api::{query::Queries, rest};
use evmd::eth_calls::JsonRpcCalls;
use home::Home;
use keys::{
    Signers,
    keyring::{Access, Keyring},
};
use pipeline::{Mining, MiningControl, Options, Pipeline};
pub(crate) use replica::is_tested as is_replica;
use replica::{Producer, Replica};
use replication::Follower;
use server::{listen, listener::Listener};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Deref,
    path::Path,
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;
pub(crate) use testkit::{MAX_WAIT, Socket, exchange, exchange_with_head};

/// The address used for a server that does not run.
const NOT_SERVED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A running node. It dereferences to its endpoints, so that most code of a test does not depend on how the node runs.
pub(crate) struct Node {
    pub(crate) endpoints: testkit::Endpoints,
    pub(crate) pipeline: Pipeline,
    pub(crate) rpc: rpc::Servers,
    rest_server: listen::Server,
    pub(crate) queries: Queries,
    metrics_server: listen::Server,
    pub(crate) budget: Arc<Budget>,
    /// If this node is a replica: its follower, and the producer that it follows.
    following: Option<(Follower, Producer)>,
    _home: Home,
    folder: TempDir,
}

impl Deref for Node {
    type Target = testkit::Endpoints;

    fn deref(&self) -> &Self::Target {
        &self.endpoints
    }
}

/// Opens a socket for a server, and sets `address` to the socket's address.
async fn opened(address: &mut Listen) -> Listener {
    let wanted = address.address().unwrap();
    let listener = Listener::bind("test", "--test.address", wanted).await.unwrap();
    *address = Listen::At(listener.address);
    listener
}

/// Opens a socket for a server on a free port.
pub(crate) async fn any_port() -> Listener {
    opened(&mut "127.0.0.1:0".parse().unwrap()).await
}

/// Returns settings with free ports and low limits.
pub(crate) fn config() -> Config {
    let free: Listen = "127.0.0.1:0".parse().unwrap();
    let mut config = Config::default();
    config.json_rpc.address = free;
    config.json_rpc.ws_address = free;
    config.json_rpc.max_request_bytes = 1_000_000;
    config.json_rpc.max_batch = 100;
    config.rest.address = free;
    config.rest.max_request_bytes = 100_000;
    config.comet.address = free;
    config.metrics.address = free;
    config
}

impl Node {
    /// Starts a chain with development accounts that produces a block every 5 ms.
    pub(crate) async fn native() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = native_home(folder.path());
        Self::start(folder, home, producing(Some(Duration::from_millis(5)))).await
    }

    /// Starts a chain that is marked as a development chain and produces blocks on request.
    pub(crate) async fn development() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut home = Home::init(folder.path(), &Genesis::development(GENESIS_TIME)).unwrap();
        home.config.mempool.price_limit = 0;
        let mut config = config();
        config.json_rpc.api = rpc::namespaces().into_iter().map(str::to_owned).collect();
        let mining = Some(MiningControl::new(Mining::OnRequest));
        let options = Options { mining, ..producing(None) };
        Self::start_with(folder, home, options, config).await
    }

    /// Like [`Self::native`], but changes the settings first.
    pub(crate) async fn native_with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = native_home(folder.path());
        let mut config = config();
        change(&mut config);
        let options = producing(Some(Duration::from_millis(5)));
        Self::start_with(folder, home, options, config).await
    }

    /// Serves a home folder.
    pub(crate) async fn start(folder: TempDir, home: Home, options: Options) -> Self {
        Self::start_with(folder, home, options, config()).await
    }

    /// Serves a home folder with these settings.
    pub(crate) async fn start_with(
        folder: TempDir,
        home: Home,
        options: Options,
        mut config: Config,
    ) -> Self {
        let (backend, mining) = (options.backend, options.mining.clone());
        // As in the program, all sockets are opened first so that every server knows the addresses of the others.
        let http = opened(&mut config.json_rpc.address).await;
        let web_socket = opened(&mut config.json_rpc.ws_address).await;
        let rest = opened(&mut config.rest.address).await;
        let metrics = opened(&mut config.metrics.address).await;
        let is_replica = replica::is_tested() && mining.is_some() && !home.spec.is_development();
        let (home, pipeline, following, forwarder) = if is_replica {
            let Replica { pipeline, home, forwarder, producer, follower } =
                Replica::start(home, options, &config).await;
            (home, pipeline, Some((follower, producer)), Some(forwarder))
        } else {
            let pipeline = Pipeline::start(&home, options).unwrap();
            (home, pipeline, None, None)
        };
        // A replica produces no blocks.
        let mining = mining.filter(|_| following.is_none());
        let calls = Arc::new(JsonRpcCalls::new(&config.json_rpc, home.caches.clone()));
        let (published, client) = (pipeline.published.clone(), pipeline.client());
        let queries = Queries::new(home.spec.clone(), published, client, &config, calls);
        let budget = Budget::new(&config);
        let at = config.endpoints();
        let rest = rest::serve(&config.rest, rest, &budget, queries.clone());
        let context = rpc_eth::Context {
            spec: home.spec.clone(),
            published: pipeline.published.clone(),
            pool: pipeline.client(),
            monitor: pipeline.monitor(),
            pool_limits: config.mempool.limits(),
            gas_cap: config.json_rpc.gas_cap,
            feehistory_cap: config.json_rpc.feehistory_cap,
            endpoints: config.endpoints(),
            signers: config.json_rpc.keyring.backend().map(|backend| {
                let keyring = Keyring::open(backend, folder.path(), Access::Read, None).unwrap();
                Arc::new(Signers::new(backend, folder.path().to_owned(), &keyring))
            }),
            mining: mining.clone(),
            development: pipeline
                .blocks()
                .filter(|_| home.spec.is_development())
                .map(|blocks| Arc::new(rpc::Development::new(blocks))),
            inclusions: Arc::default(),
            forwarder,
            budget: Arc::clone(&budget),
            caches: home.caches.clone(),
        };
        let rpc = rpc::serve(&config.json_rpc, Some(http), Some(web_socket), context).unwrap();
        let context = observe::Context {
            spec: home.spec.clone(),
            published: pipeline.published.clone(),
            pool: pipeline.client(),
            monitor: pipeline.monitor(),
            calls: rpc.calls(),
            connections_per_thread: rpc.connections_per_thread(),
            budget: Arc::clone(&budget),
            index: home.index.clone(),
            config: config.clone(),
            backend,
            run: "test".to_owned(),
            producer: None,
            mining,
            snapshots: Arc::default(),
        };
        let observe = observe::serve(metrics, context).unwrap();
        let endpoints = testkit::Endpoints {
            json_rpc: at.json_rpc.unwrap(),
            web_socket: at.json_rpc_ws.unwrap(),
            rest: rest.address,
            // Only `cosmos::served` starts gRPC and CometBFT's RPC, and no test of this `Node` needs pages.
            grpc: at.grpc.unwrap(),
            comet: at.comet.unwrap(),
            pages: at.pages.unwrap(),
            replication: None,
            ingest: match &following {
                Some((_, producer)) => producer.ingest_address(),
                None => pipeline.ingest_address,
            }
            .unwrap_or(NOT_SERVED),
            metrics: observe.address,
        };
        Self {
            endpoints,
            pipeline,
            rpc,
            rest_server: rest,
            queries,
            metrics_server: observe,
            budget,
            following,
            _home: home,
            folder,
        }
    }

    pub(crate) fn home(&self) -> &Path {
        self.folder.path()
    }

    /// Shuts down the node and its servers, and returns the home folder.
    pub(crate) async fn stop(self) -> TempDir {
        let producer = self.following.map(|(follower, producer)| {
            drop(follower);
            producer
        });
        self.pipeline.stop();
        self.rpc.stop().await;
        self.rest_server.stop().await;
        self.metrics_server.stop().await;
        self.pipeline.join().unwrap();
        if let Some(producer) = producer {
            producer.stop().await;
        }
        self.folder
    }
}
