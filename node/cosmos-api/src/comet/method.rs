//! Lists the methods in a table, and runs them.

use super::{
    Answer, Node, abci, arguments::Arguments, block_search, blocks, broadcast, error::Error, info,
    run_blocking, txs,
};
use futures_util::future::BoxFuture;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
use std::sync::Arc;

/// The kind of thread on which a method runs.
#[derive(Clone, Copy)]
enum Run {
    /// On a blocking thread: reads of headers and other small rows.
    Blocking(fn(&Node, &Arguments) -> Answer),
    /// On a blocking thread, with a concurrency limit: reads of whole blocks.
    Limited(fn(&Node, &Arguments) -> Answer),
    /// On the thread of the socket: methods that wait, or that read only from memory.
    Inline(fn(Arc<Node>, Arguments) -> BoxFuture<'static, Answer>),
}

/// A method.
#[derive(Clone, Copy)]
pub(super) struct Method {
    pub(super) name: &'static str,
    /// The parameters in order. The method itself returns an error if a required one is missing.
    pub(super) parameters: &'static [&'static str],
    run: Run,
}

impl Method {
    /// Returns the method with this name.
    pub(super) fn find(name: &str) -> Result<&'static Self, Error> {
        let found = METHODS.iter().find(|method| method.name == name);
        found.ok_or_else(|| Error::Method(name.to_owned()))
    }

    /// Returns the class in the table of costs.
    #[cfg(test)]
    pub(super) const fn place(&self) -> &'static str {
        match self.run {
            Run::Blocking(_) => "blocking thread",
            Run::Limited(_) => "in turn: reads",
            Run::Inline(_) => "inline",
        }
    }

    /// Answers a call. The response is serialized on a blocking thread, because it may be megabytes long.
    pub(super) async fn answer(
        &'static self,
        node: Arc<Node>,
        arguments: Arguments,
    ) -> Result<Box<RawValue>, Error> {
        match self.run {
            Run::Blocking(run) => run_blocking(move || to_raw_json(&run(&node, &arguments)?)).await,
            Run::Limited(run) => {
                let permit = node.queries.read_permit().await?;
                run_blocking(move || {
                    let _permit = permit;
                    to_raw_json(&run(&node, &arguments)?)
                })
                .await
            }
            Run::Inline(run) => {
                let answer = run(node, arguments).await?;
                run_blocking(move || to_raw_json(&answer)).await
            }
        }
    }
}

fn to_raw_json(answer: &Value) -> Result<Box<RawValue>, Error> {
    to_raw_value(answer).map_err(|cause| {
        tracing::error!(%cause, "cannot serialize a response of the CometBFT RPC");
        Error::Internal
    })
}

const fn reads(
    name: &'static str,
    parameters: &'static [&'static str],
    run: fn(&Node, &Arguments) -> Answer,
) -> Method {
    Method { name, parameters, run: Run::Blocking(run) }
}

const fn reads_blocks(
    name: &'static str,
    parameters: &'static [&'static str],
    run: fn(&Node, &Arguments) -> Answer,
) -> Method {
    Method { name, parameters, run: Run::Limited(run) }
}

const fn waits(
    name: &'static str,
    parameters: &'static [&'static str],
    run: fn(Arc<Node>, Arguments) -> BoxFuture<'static, Answer>,
) -> Method {
    Method { name, parameters, run: Run::Inline(run) }
}

/// Returns a method that only [`super::socket`] supports.
const fn socket_only(name: &'static str, parameters: &'static [&'static str]) -> Method {
    waits(name, parameters, |_, _| Box::pin(async { Err(Error::NoSocket) }))
}

/// The parameters of `subscribe` and `unsubscribe`.
pub(super) const QUERY: &[&str] = &["query"];

/// All methods.
pub(super) const METHODS: &[Method] = &[
    waits("abci_info", &[], |node, _| Box::pin(async move { info::abci_info(&node) })),
    waits("abci_query", &["path", "data", "height", "prove"], |node, given| {
        Box::pin(abci::query(node, given))
    }),
    reads_blocks("block", &["height"], blocks::block),
    reads_blocks("block_by_hash", &["hash"], blocks::block_by_hash),
    reads_blocks("block_results", &["height"], blocks::block_results),
    reads_blocks("blockchain", &["minHeight", "maxHeight"], blocks::blockchain),
    waits("block_search", &["query", "page", "per_page", "order_by"], |node, given| {
        Box::pin(block_search::search(node, given))
    }),
    // Unlike CometBFT's, this pool checks a transaction at once, so the result of the checks is returned.
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
    reads_blocks("tx", &["hash", "prove"], txs::tx),
    waits("tx_search", &["query", "prove", "page", "per_page", "order_by"], |node, given| {
        Box::pin(txs::search(node, given))
    }),
    waits("unconfirmed_txs", &["limit"], |node, given| Box::pin(txs::unconfirmed(node, given))),
    socket_only("unsubscribe", QUERY),
    socket_only("unsubscribe_all", &[]),
    reads("validators", &["height", "page", "per_page"], blocks::validators),
];
