//! Answers the calls that replicas forward to this node, which do not come over JSON-RPC.

use crate::{
    client::{Client, Endpoint},
    dispatch::Dispatcher,
};
use alloy_primitives::Bytes;
use budget::Evictable;
use rpc_types::{error::Error, text::Json};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

/// The namespaces of these calls, which read the pool and the pending block.
const NAMESPACES: [&str; 2] = ["eth", "txpool"];
/// The connection number of this client. Connections are numbered from 0.
const ID: u64 = u64::MAX;

/// Answers forwarded calls. All of them count as one client.
#[derive(Clone, Debug)]
pub struct LocalCalls {
    dispatcher: Arc<Dispatcher>,
    client: Arc<Client>,
}

impl LocalCalls {
    pub(crate) fn new(dispatcher: Arc<Dispatcher>) -> Self {
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        let owner = Arc::<Evictable>::default();
        let account = dispatcher.context().budget.account(address, &owner);
        let endpoint = Arc::new(Endpoint::new(&NAMESPACES.map(str::to_owned), true));
        let (rate, flow) = (Arc::default(), Arc::default());
        let client = Client { id: ID, address, rate, endpoint, flow, account };
        Self { dispatcher, client: Arc::new(client) }
    }

    /// Answers a call; `params` is JSON text.
    ///
    /// # Errors
    /// Returns the error that a client of JSON-RPC would receive.
    pub async fn call(&self, method: &str, params: Bytes) -> Result<Json, Error> {
        self.dispatcher.call(method, params, &self.client).await
    }
}
