//! Starts and stops the servers of all interfaces except ingest and p2p.

use super::listeners::Listeners;
use crate::eth_calls::JsonRpcCalls;
use certificates::PublicKey;
use cosmos_api::{comet, grpc, query::Queries, rest};
use home::Home;
use keys::Signers;
use pipeline::{Mining, MiningControl, Pipeline};
use replication::{SourceContext, Terms};
use rpc_eth::CallForwarder;
use server::{listen, tls::Tls};
use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::runtime::Handle;
use verify::Backend;

/// Returns a name that is unique to this run of the node: its start time in nanoseconds and its process id, in hex.
fn run_name() -> String {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", time.as_nanos(), std::process::id())
}

/// The running servers.
pub(super) struct Servers {
    rpc: rpc::Servers,
    /// The other servers, in the order in which they are stopped.
    others: Vec<listen::Server>,
}

impl Servers {
    pub(super) async fn stop(self) {
        self.rpc.stop().await;
        for server in self.others {
            server.stop().await;
        }
    }
}

/// What the servers need in addition to the home and the pipeline.
pub(super) struct Served {
    pub(super) mining: Option<MiningControl>,
    pub(super) producer: Option<(PublicKey, u64)>,
    pub(super) backend: Backend,
    pub(super) signers: Option<Arc<Signers>>,
    pub(super) development: Option<Arc<rpc::Development>>,
    pub(super) snapshots: Arc<observe::SnapshotCounters>,
    /// Forwards calls about the pool and the pending block to the producer, on a node that follows others.
    pub(super) forwarder: Option<Arc<dyn CallForwarder>>,
    /// The producer terms, if blocks are signed.
    pub(super) terms: Option<Arc<Terms>>,
    /// Encrypts the connections of followers.
    pub(super) tls: Option<Tls>,
}

/// Starts the servers that have a listener: metrics in `metrics_runtime`, web pages in `page_runtime`, and the others
/// in the current runtime.
pub(super) async fn serve(
    home: &Home,
    pipeline: &Pipeline,
    listeners: Listeners,
    served: Served,
    (metrics_runtime, page_runtime): (&Handle, &Handle),
) -> anyhow::Result<Servers> {
    let Served { mining, producer, backend, signers, development, snapshots, .. } = served;
    let Served { forwarder, terms, tls, .. } = served;
    let (config, budget) = (&home.config, &pipeline.budget);
    let context = rpc_eth::Context {
        spec: home.spec.clone(),
        published: pipeline.published.clone(),
        pool: pipeline.client(),
        monitor: pipeline.monitor(),
        pool_limits: config.mempool.limits(),
        gas_cap: config.json_rpc.gas_cap,
        feehistory_cap: config.json_rpc.feehistory_cap,
        endpoints: config.endpoints(),
        caches: home.caches.clone(),
        signers,
        mining: mining.clone(),
        development,
        inclusions: Arc::default(),
        forwarder,
        budget: Arc::clone(budget),
    };
    let rpc = rpc::serve(&config.json_rpc, listeners.json_rpc, listeners.web_socket, context)?;
    let calls = Arc::new(JsonRpcCalls::new(&config.json_rpc, home.caches.clone()));
    let queries = Queries::new(
        home.spec.clone(),
        pipeline.published.clone(),
        pipeline.client(),
        config,
        calls,
    );
    let rest =
        listeners.rest.map(|listener| rest::serve(&config.rest, listener, budget, queries.clone()));
    let grpc =
        listeners.grpc.map(|listener| grpc::serve(&config.grpc, listener, budget, queries.clone()));
    let comet =
        listeners.comet.map(|listener| comet::serve(&config.comet, listener, budget, queries));
    let pages = listeners.pages.map(|listener| {
        let _inside = page_runtime.enter();
        let context = pages::Context {
            spec: home.spec.clone(),
            published: pipeline.published.clone(),
            pool: pipeline.client(),
            monitor: pipeline.monitor(),
            index: home.index.clone(),
            endpoints: config.endpoints(),
            caches: home.caches.clone(),
            budget: Arc::clone(budget),
        };
        pages::serve(&config.pages, listener, context)
    });
    let replication = match listeners.replication {
        Some(listener) => {
            let context = SourceContext {
                genesis_hash: home.genesis_hash()?,
                published: pipeline.published.clone(),
                pool: pipeline.client(),
                calls: rpc.local_calls(),
                terms,
                tls,
            };
            Some(replication::serve(listener, budget, context))
        }
        None => None,
    };
    let context = observe::Context {
        spec: home.spec.clone(),
        published: pipeline.published.clone(),
        pool: pipeline.client(),
        monitor: pipeline.monitor(),
        calls: rpc.calls(),
        connections_per_thread: rpc.connections_per_thread(),
        budget: Arc::clone(budget),
        index: home.index.clone(),
        config: config.clone(),
        backend,
        run: run_name(),
        producer,
        // Validators lead in rotation, and together produce blocks at the same interval as a single producer.
        mining: mining.or_else(|| {
            let pace = pipeline.published.voting().map(|_| config.engine.block_time());
            pace.map(|pace| MiningControl::new(Mining::Every(pace)))
        }),
        snapshots,
    };
    let observe = match listeners.metrics {
        Some(metrics) => {
            Some(metrics_runtime.spawn(async { observe::serve(metrics, context) }).await??)
        }
        None => None,
    };
    let others = [rest, grpc, comet, pages, replication, observe].into_iter().flatten().collect();
    Ok(Servers { rpc, others })
}
