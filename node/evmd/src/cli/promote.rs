//! `evmd promote` makes a stopped replica the producer of its chain.

use super::{HomeArg, Output, start::tls_roots, start_logs};
use anyhow::{Context, bail};
use certificates::{Authority, BlockId};
use config::Config;
use home::{Home, read_key, stored_authority};
use replication::{NodeTerms, TermsError, ask_node};
use std::{io::Write, path::PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    home: HomeArg,
    /// File with the secret key that signs the new producer term: the recovery key that the genesis names, or a copy of
    /// the producer.key of the old producer
    #[arg(long, value_name = "FILE")]
    signed_by: PathBuf,
    /// Other nodes to ask for their newest block, besides those in replication.follow
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    ask: Vec<String>,
    /// Promote this replica although another node has later blocks, which are lost then
    #[arg(long)]
    accept_loss: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    start_logs("warn")?;
    let path = args.home.path()?;
    let signing = read_key(&args.signed_by)?;
    let config = Config::load(&path)?;
    let urls: Vec<_> = config.replication.follow.iter().chain(&args.ask).cloned().collect();
    let (authority, head) = authority_and_head(&path)?;
    let roots = tls_roots(&config, &path)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for url in &urls {
        match runtime.block_on(ask_node(url, &roots, &authority)) {
            Ok(sent) => check(url, &sent, &authority, head, args.accept_loss)?,
            Err(reason) => tracing::warn!("{url} did not respond: {reason}"),
        }
    }
    let term = Home::start_term(&path, &signing)?;
    let (authority, _) = authority_and_head(&path)?;
    for url in &urls {
        // The request contains the new term, so the old producer stops when it receives the request.
        match runtime.block_on(ask_node(url, &roots, &authority)) {
            Ok(sent) if !sent.terms.contains(&term) => {
                tracing::warn!("{url} does not accept the new term: its log has the reason");
            }
            Ok(sent) if sent.head.number > term.last.number => tracing::warn!(
                "{url} has block {}: its blocks after block {} are not part of the chain",
                sent.head.number,
                term.last.number
            ),
            Ok(_) => {}
            Err(reason) => tracing::warn!("{url} does not know the new term yet: {reason}"),
        }
    }
    let mut out = crate::cli::stdout();
    match args.output {
        Output::Text => writeln!(
            out,
            "Producer term {} starts after block {} {}\nThe blocks after it are signed with the key {} of {}\nRemove \
             replication.follow from the settings and start it: evmd start --home {}",
            term.term,
            term.last.number,
            term.last.hash,
            term.producer,
            path.join(home::PRODUCER_KEY_FILE).display(),
            path.display(),
        )?,
        Output::Json => writeln!(out, "{}", serde_json::to_string(&term)?)?,
    }
    Ok(())
}

/// Returns the keys that sign the blocks in a home folder, and the newest block.
fn authority_and_head(path: &std::path::Path) -> anyhow::Result<(Authority, BlockId)> {
    let (chain, _index) = Home::attach(path)?;
    let authority = stored_authority(&chain, path)?;
    let authority =
        authority.context("blocks of this chain are not signed, so it has no producer terms")?;
    let (number, hash) = chain.reader()?.head()?.context("the home folder has no chain")?;
    Ok((authority, BlockId { number, hash }))
}

/// Fails if another node has newer terms, or if it has later blocks and `accept_loss` is not set.
fn check(
    url: &str,
    sent: &NodeTerms,
    authority: &Authority,
    head: BlockId,
    accept_loss: bool,
) -> anyhow::Result<()> {
    match sent.newer_than(authority) {
        Ok(0) => {}
        Ok(newer) => bail!(
            "{url} knows {newer} producer terms that this node does not know: another node has been promoted, so start this one \
             with --follow"
        ),
        Err(error @ TermsError::Conflict { .. }) => bail!("{url}: {error}"),
        Err(error) => {
            tracing::warn!(
                "{url} sent producer terms that are not valid, and is not counted: {error}"
            );
            return Ok(());
        }
    }
    if sent.head.number > head.number && !accept_loss {
        bail!(
            "{url} has block {}, and the newest block of this node is {}: promote that node, or start this one with --follow {url} \
             until it has the block; with --accept-loss the later blocks are lost",
            sent.head.number,
            head.number
        );
    }
    Ok(())
}
