//! The client of a connection, with the state that its limits and a fair queue need.

use crate::{flow::Flow, methods::MethodIndex, rates::ConnectionRate};
use budget::Account;
use rpc_eth::method::Caller;
use std::{net::IpAddr, sync::Arc};

/// The API of one listening address.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// The enabled namespaces.
    pub(crate) api: Arc<[String]>,
    pub(crate) index: MethodIndex,
    /// Whether the address accepts calls over HTTP in addition to WebSockets.
    pub(crate) http: bool,
}

impl Endpoint {
    pub(crate) fn new(api: &[String], http: bool) -> Self {
        Self { api: api.into(), index: MethodIndex::new(api), http }
    }
}

/// The client of a connection. On the connection of a trusted proxy, each request has its own client.
#[derive(Debug)]
pub(crate) struct Client {
    /// The number of the connection.
    pub(crate) id: u64,
    pub(crate) address: IpAddr,
    pub(crate) rate: Arc<ConnectionRate>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) flow: Arc<Flow>,
    /// Accounts for the memory that the client's requests and responses use.
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
    pub(crate) fn caller(&self) -> Caller {
        Caller { address: self.address, api: Arc::clone(&self.endpoint.api) }
    }
}
