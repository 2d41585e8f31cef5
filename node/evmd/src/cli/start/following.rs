//! Starts a node that follows the blocks of others, and stops a producer whose term has ended.

use super::interrupts::Interrupts;
use anyhow::{Context, bail};
use certificates::{Authority, Term};
use config::Config;
use home::Home;
use pipeline::Pipeline;
use replication::{FollowContext, Follower, Forwarder, Roots, Terms, TermsError, ask_node};
use server::tls::Tls;
use std::{path::Path, sync::Arc, time::Duration};
use verify::Backend;

/// Time between two rounds of requests to the followers.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Refuses to follow other nodes from a home without a chain, because the node would create a new development chain.
pub(super) fn require_chain_to_follow(config: &Config) -> anyhow::Result<()> {
    match config.replication.follow.first() {
        None => Ok(()),
        Some(source) => bail!(
            "replication.follow (--follow): this home has no chain, and the genesis must not come from {source}: get the \
             genesis file from the operator of the chain, and run `evmd init --genesis FILE` first"
        ),
    }
}

/// Returns the keys that sign the blocks of the chain, or `None` if this node does not follow others.
pub(super) fn authority(home: &Home) -> anyhow::Result<Option<Authority>> {
    if home.config.replication.follow.is_empty() {
        return Ok(None);
    }
    if home.spec.is_development() {
        bail!(
            "replication.follow (--follow): blocks of a development chain are not signed, because evm_revert replaces \
             them, so they cannot be followed; `evmd init` makes a chain with a producer"
        );
    }
    if home.config.mempool.accept_without_production {
        bail!(
            "mempool.accept-without-production: this node follows others (replication.follow), and forwards transactions to \
             the producer instead of keeping them: set it to false"
        );
    }
    let authority = home.authority()?;
    let authority = authority.context(
        "replication.follow (--follow): the genesis of this chain names no producer, so signatures cannot be checked: restore a snapshot of the producer, \
         which contains its key",
    )?;
    home.check_head_term(&authority).context("replication.follow (--follow)")?;
    Ok(Some(authority))
}

/// Loads the certificate authorities that this node trusts for encrypted connections to other nodes.
pub(in crate::cli) fn tls_roots(config: &Config, home: &Path) -> anyhow::Result<Roots> {
    let file = config.replication.tls_roots_in(home);
    Roots::load(file.as_deref()).context("replication.tls-roots")
}

/// Loads the certificate and key with which this node encrypts the connections of its followers, if they are set.
pub(super) fn certificate(config: &Config, home: &Path) -> anyhow::Result<Option<Tls>> {
    let Some((certificate, key)) = config.replication.tls_pair(home)? else { return Ok(None) };
    Tls::load(&certificate, &key).context("replication.tls-certificate").map(Some)
}

/// Waits until one of the nodes in `replication.followers` has responded with its producer terms and its head. Returns
/// `false` if a signal cancels the startup.
///
/// # Errors
/// If a follower knows a newer or conflicting term or has a later block: this node must then not produce blocks.
pub(super) async fn wait_for_follower(
    urls: &[String],
    roots: &Roots,
    terms: &Terms,
    head: u64,
    interrupts: &mut Interrupts,
) -> anyhow::Result<bool> {
    if urls.is_empty() {
        return Ok(true);
    }
    tracing::info!(
        followers = urls.join(" "),
        "waiting for one of the followers before blocks are produced"
    );
    loop {
        for url in urls {
            let authority = terms.authority();
            let sent = tokio::select! {
                sent = ask_node(url, roots, &authority) => sent,
                () = interrupts.recv() => return Ok(false),
            };
            match sent {
                Ok(sent) => {
                    match terms.supersede(&sent.terms) {
                        Ok(()) => {}
                        Err(error @ TermsError::Invalid(_)) => {
                            tracing::warn!(follower = url, %error, "the follower sent terms that are not valid");
                            continue;
                        }
                        Err(error) => return Err(error).with_context(|| url.clone()),
                    }
                    if let Some(newer) = *terms.superseded().borrow() {
                        bail!(superseded(&newer, head));
                    }
                    if sent.head.number > head {
                        bail!(
                            "{url} has block {}, and the newest block of this producer is {head}: its later blocks were lost, so it \
                             must not sign others in the same term; start it with --follow {url} until it has the block",
                            sent.head.number
                        );
                    }
                    return Ok(true);
                }
                Err(reason) => {
                    tracing::warn!(follower = url, reason, "the follower did not respond");
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = interrupts.recv() => return Ok(false),
        }
    }
}

/// Returns the error message, including the remedy, for a producer whose term has been ended by a newer one.
pub(super) fn superseded(newer: &Term, head: u64) -> String {
    let Term { term, last, producer, .. } = newer;
    let rollback = if head > last.number {
        format!(
            "`evmd rollback --height {}` removes its later blocks, which are not part of the chain, and then ",
            last.number
        )
    } else {
        String::new()
    };
    format!(
        "producer term {term} of the key {producer} starts after block {}, so this node produces no more blocks: {rollback}`evmd start \
         --follow URL` makes it a replica",
        last.number
    )
}

/// Waits for a newer term that ends this node's term. Never returns if this node produces no blocks.
pub(super) async fn until_superseded(terms: Option<&Terms>, produces: bool) -> Term {
    if let Some(terms) = terms.filter(|_| produces) {
        let mut newer = terms.superseded();
        if let Ok(newer) = newer.wait_for(Option::is_some).await
            && let Some(newer) = *newer
        {
            return newer;
        }
    }
    std::future::pending().await
}

/// Starts following the sources, in the current Tokio runtime.
pub(super) fn start(
    home: &Home,
    pipeline: &Pipeline,
    terms: Arc<Terms>,
    forwarder: Arc<Forwarder>,
    backend: Backend,
    roots: Roots,
) -> anyhow::Result<Follower> {
    let context = FollowContext {
        spec: home.spec.clone(),
        terms,
        published: pipeline.published.clone(),
        blocks: pipeline.blocks().context("the pipeline was started without given_blocks")?,
        forwarder,
        backend,
        verification: home.config.replication.verify,
        sources: home.config.replication.follow.clone(),
        roots,
        max_lag: home.config.replication.max_lag(),
    };
    Follower::start(context).context("replication.follow (--follow)")
}
