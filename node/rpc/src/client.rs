//! A client's connection, as far as limits and fairness need to know it.

use crate::{flow::Flow, methods::MethodIndex, rates::ConnectionRate};
use budget::Account;
use rpc_eth::method::Caller;
use std::{net::IpAddr, sync::Arc};

/// The API of one listening address.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Namespaces.
    pub(crate) api: Arc<[String]>,
    pub(crate) index: MethodIndex,
    /// Whether calls over HTTP are accepted, and not only WebSockets.
    pub(crate) http: bool,
}

impl Endpoint {
    pub(crate) fn new(api: &[String], http: bool) -> Self {
        Self { api: api.into(), index: MethodIndex::new(api), http }
    }
}

/// A client of a connection. A trusted proxy's connection has one for each request.
#[derive(Debug)]
pub(crate) struct Client {
    /// Number of the connection.
    pub(crate) id: u64,
    pub(crate) address: IpAddr,
    pub(crate) rate: Arc<ConnectionRate>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) flow: Arc<Flow>,
    /// The memory that its requests and responses use.
    pub(crate) account: Arc<Account>,
}

#[cfg(test)]
impl Client {
    pub(crate) fn for_tests() -> Self {
        let endpoint = Arc::new(Endpoint::new(&[], true));
        let (rate, flow) = (Arc::default(), Arc::default());
        let (address, account) = (IpAddr::from([127, 0, 0, 1]), Account::with_limit(1 << 40));
        Self { id: 0, address, rate, endpoint, flow, account }
    }
}

impl Client {
    /// The client as methods see it.
    pub(crate) fn caller(&self) -> Caller {
        Caller { address: self.address, api: Arc::clone(&self.endpoint.api) }
    }
}
