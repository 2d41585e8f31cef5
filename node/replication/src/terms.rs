//! Exchanges producer terms between a node and those that follow it (`docs/replication.md`). A term is signed, so it
//! does not matter which node sends it.

use crate::{
    PROTOCOL_VERSION,
    channel::{Roots, connect, endpoint},
    protocol::{TermsRequest, TermsResponse, source_client::SourceClient},
};
use alloy_primitives::B256;
use certificates::{Authority, AuthorityError, BlockId, Term};
use home::{HomeError, MAX_TERMS, TermStore};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::watch, time::timeout};
use tonic::{Status, transport::Channel};

/// Maximum size of an encoded term in bytes. It usually has some 450.
const MAX_TERM_BYTES: usize = 1024;
/// Maximum size of the terms of a chain in bytes.
const MAX_TERMS_BYTES: usize = MAX_TERMS * MAX_TERM_BYTES;
/// Maximum time for the response of a node.
const MAX_ASKING_TIME: Duration = Duration::from_secs(5);

/// The terms that this node knows.
#[derive(Debug)]
pub struct Terms {
    store: TermStore,
    authority: Mutex<Arc<Authority>>,
    /// Held from the check of terms until they are stored.
    adding: Mutex<()>,
    /// The term that ended the one in which this node produces.
    newer: watch::Sender<Option<Term>>,
}

/// The terms and the newest block of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTerms {
    /// Its terms, from term 1 on. They are not checked.
    pub terms: Vec<Term>,
    /// Its newest block.
    pub head: BlockId,
}

/// Why the terms of another node are not those of this chain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TermsError {
    /// Two terms have the same number.
    #[error(
        "it has another producer term {term} than this node: the key that signs terms has signed two of them, so the chain has \
         two branches; ask its operator which one counts"
    )]
    Conflict {
        /// The number of the term.
        term: u64,
    },
    /// A term is not valid.
    #[error(transparent)]
    Invalid(#[from] AuthorityError),
    /// Blocks of this node are not part of the chain in the new term.
    #[error(
        "its producer term {term} starts after block {}, and this node has later blocks up to block {head}, which are not part of \
         the chain in that term: stop this node, run `evmd rollback --height {}`, and start it again",
        last.number, last.number
    )]
    NeedsRollback {
        /// The number of the term.
        term: u64,
        /// The block after which it starts.
        last: BlockId,
        /// The newest block of this node.
        head: u64,
    },
    /// The term starts after another block.
    #[error(
        "its producer term {term} starts after block {} {}, and that of this node is {found}: stop this node, run `evmd rollback \
         --height {}`, and start it again",
        last.number, last.hash, last.number.saturating_sub(1)
    )]
    OtherBlock {
        /// The number of the term.
        term: u64,
        /// The block after which it starts.
        last: BlockId,
        /// The hash of this node's block.
        found: B256,
    },
    /// The terms cannot be stored.
    #[error("producer terms cannot be stored: {0}")]
    Store(#[from] Box<HomeError>),
}

impl Terms {
    /// Creates the terms of a node.
    pub fn new(store: TermStore, authority: Authority) -> Self {
        let authority = Mutex::new(Arc::new(authority));
        Self { store, authority, adding: Mutex::default(), newer: watch::Sender::new(None) }
    }

    /// Returns the keys that sign blocks.
    pub fn authority(&self) -> Arc<Authority> {
        Arc::clone(&self.authority.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a receiver of the term that ends the one in which this node produces: the node must stop then.
    pub fn superseded(&self) -> watch::Receiver<Option<Term>> {
        self.newer.subscribe()
    }

    /// Accepts the terms that another node knows and this one, whose newest block is `head`, does not.
    pub(crate) fn accept(&self, sent: &[Term], head: BlockId) -> Result<(), TermsError> {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let (authority, new) = extended(&self.authority(), sent)?;
        // Terms are stored even if this node must be rolled back: a former producer must know that its term has ended.
        self.keep(authority, new)?;
        check_no_rollback(new, head)
    }

    /// Stores the terms that another node knows and this one, which produces blocks, does not. They end its term.
    ///
    /// # Errors
    /// [`TermsError`].
    pub fn supersede(&self, sent: &[Term]) -> Result<(), TermsError> {
        let _adding = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        let (authority, new) = extended(&self.authority(), sent)?;
        let kept = self.keep(authority, new);
        if let Some(newest) = new.last() {
            // This node must stop producing even if the disk is full.
            self.newer.send_replace(Some(*newest));
        }
        kept
    }

    fn keep(&self, authority: Authority, new: &[Term]) -> Result<(), TermsError> {
        if let Some(newest) = new.last() {
            self.store.add(new).map_err(Box::new)?;
            *self.authority.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(authority);
            tracing::info!(
                term = newest.term,
                after_block = newest.last.number,
                producer = %newest.producer,
                "accepted a new producer term"
            );
        }
        Ok(())
    }
}

/// Checks that no block of a node with this head must be removed for new terms.
fn check_no_rollback(new: &[Term], head: BlockId) -> Result<(), TermsError> {
    // A later term may start after a lower block.
    let Some(&Term { term, last, .. }) = new.iter().min_by_key(|term| term.last.number) else {
        return Ok(());
    };
    if last.number < head.number {
        return Err(TermsError::NeedsRollback { term, last, head: head.number });
    }
    if last.number == head.number && last.hash != head.hash {
        return Err(TermsError::OtherBlock { term, last, found: head.hash });
    }
    Ok(())
}

/// Returns the keys with the terms of another node, and those of its terms that are new.
fn extended<'a>(
    known: &Authority,
    sent: &'a [Term],
) -> Result<(Authority, &'a [Term]), TermsError> {
    let own = known.terms();
    let common = own.iter().zip(sent).take_while(|(own, sent)| own == sent).count();
    if let (Some(_), Some(other)) = (own.get(common), sent.get(common)) {
        // Only a valid term is a conflict: any node could send other bytes.
        let mut before = known.without_terms();
        own[..common].iter().try_for_each(|term| before.add(*term))?;
        before.add(*other)?;
        return Err(TermsError::Conflict { term: other.term });
    }
    let mut authority = known.clone();
    let new = sent.get(own.len()..).unwrap_or_default();
    new.iter().try_for_each(|term| authority.add(*term))?;
    Ok((authority, new))
}

impl NodeTerms {
    /// Returns the number of its terms that a node with these keys does not know.
    ///
    /// # Errors
    /// If they are not terms of the same chain.
    pub fn newer_than(&self, known: &Authority) -> Result<usize, TermsError> {
        extended(known, &self.terms).map(|(_, new)| new.len())
    }
}

/// Decodes the terms of a message.
pub(crate) fn decoded(terms: &[bytes::Bytes]) -> Result<Vec<Term>, Status> {
    if terms.len() > MAX_TERMS || terms.iter().any(|term| term.len() > MAX_TERM_BYTES) {
        return Err(Status::invalid_argument(format!(
            "a chain has at most {MAX_TERMS} producer terms of at most {MAX_TERM_BYTES} bytes"
        )));
    }
    let read = terms.iter().map(|term| serde_json::from_slice(term)).collect::<Result<_, _>>();
    read.map_err(|error| Status::invalid_argument(format!("a producer term: {error}")))
}

/// Encodes terms for a message.
pub(crate) fn encoded(terms: &[Term]) -> Vec<bytes::Bytes> {
    let json = |term| serde_json::to_vec(term).expect("keys and numbers are JSON");
    terms.iter().map(|term| json(term).into()).collect()
}

/// Sends the terms of this node to another one, and asks for those of that node.
pub(crate) async fn ask(channel: Channel, authority: &Authority) -> Result<NodeTerms, Status> {
    let mut client = SourceClient::new(channel).max_decoding_message_size(2 * MAX_TERMS_BYTES);
    let request = TermsRequest {
        version: PROTOCOL_VERSION,
        genesis_hash: authority.genesis().to_vec().into(),
        terms: encoded(authority.terms()),
    };
    let response = timeout(MAX_ASKING_TIME, client.terms(request)).await;
    let timed_out = |_| Status::deadline_exceeded("it did not answer in time");
    let TermsResponse { terms, head, head_hash } = response.map_err(timed_out)??.into_inner();
    let hash = B256::try_from(&*head_hash);
    // This status code marks a response that no honest source sends, so that the source is refused.
    let wrong = |text: &str| Status::failed_precondition(text);
    let hash = hash.map_err(|_| wrong("its newest block has no hash"))?;
    let terms = decoded(&terms).map_err(|status| wrong(status.message()))?;
    Ok(NodeTerms { terms, head: BlockId { number: head, hash } })
}

/// Sends to the node at `url` the terms of this node, and asks for those of that node.
///
/// # Errors
/// The reason why there is no valid response.
pub async fn ask_node(
    url: &str,
    roots: &Roots,
    authority: &Authority,
) -> Result<NodeTerms, String> {
    let channel = connect(&endpoint(url, roots)?).await?;
    ask(channel, authority).await.map_err(|status| status.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use certificates::{SecretKey, Signer};

    const GENESIS: B256 = B256::repeat_byte(9);

    fn key(byte: u8) -> SecretKey {
        SecretKey::from_bytes(&[byte; 32])
    }

    fn block(number: u64) -> BlockId {
        BlockId { number, hash: B256::repeat_byte(number as u8) }
    }

    /// A term of key `producer`, which the recovery key or another key signs.
    fn term(number: u64, last: u64, producer: u8, signing: u8) -> Term {
        let signer = (Signer::Recovery, &key(signing));
        Term::sign(signer, GENESIS, number, block(last), key(producer).public())
    }

    fn authority(terms: &[Term]) -> Authority {
        let mut authority = Authority::new(GENESIS, key(1).public(), Some(key(7).public()));
        terms.iter().for_each(|term| authority.add(*term).unwrap());
        authority
    }

    #[test]
    fn only_valid_terms_extend_the_known_ones_or_conflict_with_them() {
        let (first, second) = (term(1, 10, 2, 7), term(2, 20, 3, 7));
        let known = authority(&[first]);
        let new = |sent: &[Term]| extended(&known, sent).map(|(_, new)| new.len());
        assert_eq!(new(&[]).unwrap(), 0);
        assert_eq!(new(&[first]).unwrap(), 0);
        assert_eq!(new(&[first, second]).unwrap(), 1);
        assert_eq!(extended(&known, &[first, second]).unwrap().0.newest_term(), 2);
        let conflict = new(&[term(1, 11, 2, 7)]).unwrap_err();
        assert!(matches!(conflict, TermsError::Conflict { term: 1 }), "{conflict}");
        for sent in [
            vec![term(1, 11, 2, 6)],
            vec![second],
            vec![first, term(2, 20, 3, 6)],
            vec![first, first],
            vec![first, term(3, 20, 3, 7)],
        ] {
            let invalid = new(&sent).unwrap_err();
            assert!(matches!(invalid, TermsError::Invalid(_)), "{invalid}");
        }
    }

    #[test]
    fn a_term_is_accepted_if_it_removes_no_block() {
        let new = [term(1, 10, 2, 7), term(2, 20, 3, 7)];
        for head in [0, 9, 10] {
            check_no_rollback(&new, block(head)).unwrap();
        }
        let removes = check_no_rollback(&new, block(11)).unwrap_err();
        assert!(removes.to_string().contains("`evmd rollback --height 10`"), "{removes}");
        let other = BlockId { hash: B256::ZERO, ..block(10) };
        let removes = check_no_rollback(&new, other).unwrap_err().to_string();
        assert!(removes.contains("--height 9`"), "{removes}");
        // The second term starts below the first one.
        let lower = [term(1, 10, 2, 7), term(2, 5, 3, 7)];
        let removes = check_no_rollback(&lower, block(8)).unwrap_err().to_string();
        assert!(removes.contains("`evmd rollback --height 5`"), "{removes}");
        check_no_rollback(&lower, block(5)).unwrap();
    }
}
