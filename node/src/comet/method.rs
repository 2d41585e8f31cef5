//! The table of methods.

use super::{
    Answer, Node, abci, apart, arguments::Arguments, blocks, broadcast, error::Error, info, txs,
};
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// How a method is run.
#[derive(Clone, Copy)]
enum Run {
    /// Apart from the threads that serve sockets: for what reads.
    Apart(fn(&Node, &Arguments) -> Answer),
    /// Where the socket is served: for what waits.
    Waiting(fn(Arc<Node>, Arguments) -> BoxFuture<'static, Answer>),
}

/// A method.
#[derive(Clone, Copy)]
pub(super) struct Method {
    pub(super) name: &'static str,
    /// Its parameters in order. All may be left out but those whose absence is an error of the method.
    pub(super) parameters: &'static [&'static str],
    run: Run,
}

impl Method {
    /// The method of this name.
    pub(super) fn find(name: &str) -> Result<&'static Self, Error> {
        let found = METHODS.iter().find(|method| method.name == name);
        found.ok_or_else(|| Error::Method(name.to_owned()))
    }

    /// Answers a call.
    pub(super) async fn answer(&'static self, node: Arc<Node>, arguments: Arguments) -> Answer {
        match self.run {
            Run::Apart(run) => apart(move || run(&node, &arguments)).await,
            Run::Waiting(run) => run(node, arguments).await,
        }
    }
}

const fn reads(
    name: &'static str,
    parameters: &'static [&'static str],
    run: fn(&Node, &Arguments) -> Answer,
) -> Method {
    Method { name, parameters, run: Run::Apart(run) }
}

const fn waits(
    name: &'static str,
    parameters: &'static [&'static str],
    run: fn(Arc<Node>, Arguments) -> BoxFuture<'static, Answer>,
) -> Method {
    Method { name, parameters, run: Run::Waiting(run) }
}

/// A method that [`super::socket`] answers where there is one.
const fn socket_only(name: &'static str, parameters: &'static [&'static str]) -> Method {
    waits(name, parameters, |_, _| Box::pin(async { Err(Error::NoSocket) }))
}

/// The parameter of a subscription.
pub(super) const QUERY: &[&str] = &["query"];

/// Every method there is.
pub(super) const METHODS: &[Method] = &[
    waits("abci_info", &[], |node, _| Box::pin(async move { info::abci_info(&node) })),
    waits("abci_query", &["path", "data", "height", "prove"], |node, given| {
        Box::pin(abci::query(node, given))
    }),
    reads("block", &["height"], blocks::block),
    reads("block_by_hash", &["hash"], blocks::block_by_hash),
    reads("block_results", &["height"], blocks::block_results),
    reads("blockchain", &["minHeight", "maxHeight"], blocks::blockchain),
    // The pool is asked at once here, so its answer is told.
    waits("broadcast_tx_async", &["tx"], |node, given| Box::pin(broadcast::sync(node, given))),
    waits("broadcast_tx_commit", &["tx"], |node, given| Box::pin(broadcast::commit(node, given))),
    waits("broadcast_tx_sync", &["tx"], |node, given| Box::pin(broadcast::sync(node, given))),
    reads("commit", &["height"], blocks::commit),
    reads("consensus_params", &["height"], info::consensus_params),
    reads("genesis", &[], info::genesis),
    reads("header", &["height"], blocks::header),
    reads("header_by_hash", &["hash"], blocks::header_by_hash),
    waits("health", &[], |_, _| Box::pin(async { Ok(info::health()) })),
    waits("net_info", &[], |_, _| Box::pin(async { Ok(info::net_info()) })),
    waits("num_unconfirmed_txs", &[], |node, _| Box::pin(txs::num_unconfirmed(node))),
    reads("status", &[], info::status),
    socket_only("subscribe", QUERY),
    reads("tx", &["hash", "prove"], txs::tx),
    waits("tx_search", &["query", "prove", "page", "per_page", "order_by"], |node, given| {
        Box::pin(txs::search(node, given))
    }),
    waits("unconfirmed_txs", &["limit"], |node, given| Box::pin(txs::unconfirmed(node, given))),
    socket_only("unsubscribe", QUERY),
    socket_only("unsubscribe_all", &[]),
    reads("validators", &["height", "page", "per_page"], blocks::validators),
];
