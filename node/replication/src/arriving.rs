//! Assembles blocks from pieces. The first piece of a block has the header and the certificate, which are checked
//! before the rest is received. Blocks that no certificate covers yet are limited in number and held as bytes.

use crate::protocol::Piece;
use crate::{
    MAX_ENCODED_BYTES,
    checks::{Arrived, CheckError, Checks, MAX_UNCERTIFIED_BLOCKS},
};
use alloy_consensus::Header;
use alloy_primitives::Bytes;
use bytes::BytesMut;
use certificates::BlockId;
use std::{collections::VecDeque, sync::Arc};

/// The beginning of a block.
#[derive(Debug)]
struct Partial {
    id: BlockId,
    header: Header,
    certificate: Option<Bytes>,
    results: BytesMut,
}

/// The blocks that are arriving.
#[derive(Debug)]
pub(crate) struct Arriving {
    checks: Arc<Checks>,
    /// The newest whole block.
    newest: BlockId,
    partial: Option<Partial>,
    /// Blocks that no certificate covers yet.
    uncertified: VecDeque<Arrived>,
}

impl Arriving {
    /// Begins after block `newest`.
    pub(crate) const fn new(checks: Arc<Checks>, newest: BlockId) -> Self {
        Self { checks, newest, partial: None, uncertified: VecDeque::new() }
    }

    /// Returns the number of the newest whole block.
    pub(crate) const fn newest(&self) -> u64 {
        self.newest.number
    }

    /// Adds a piece. Returns the blocks that a certificate covers now.
    pub(crate) fn add(&mut self, piece: Piece) -> Result<Vec<Arrived>, CheckError> {
        let Piece { header, certificate, data, ends_block, .. } = piece;
        if !header.is_empty() {
            if self.partial.is_some() {
                return Err(CheckError::Sequence("a header in the middle of a block"));
            }
            let (id, header, certificate) =
                self.checks.header(&header, certificate.into(), self.newest)?;
            self.partial = Some(Partial { id, header, certificate, results: BytesMut::new() });
        }
        if data.is_empty() && !ends_block {
            return Ok(Vec::new());
        }
        let Some(partial) = &mut self.partial else {
            return Err(CheckError::Sequence("data without a header"));
        };
        let bytes = partial.results.len() + data.len();
        if bytes > MAX_ENCODED_BYTES {
            return Err(CheckError::TooLarge { number: partial.id.number });
        }
        partial.results.extend_from_slice(&data);
        if ends_block { self.end() } else { Ok(Vec::new()) }
    }

    /// Ends the partial block.
    fn end(&mut self) -> Result<Vec<Arrived>, CheckError> {
        let Partial { id, header, certificate, results } =
            self.partial.take().expect("a partial block");
        tracing::debug!(number = id.number, bytes = results.len(), "received a block");
        self.newest = id;
        let is_certified = certificate.is_some();
        let results = results.freeze();
        self.uncertified.push_back(Arrived { id, header, certificate, results });
        if is_certified {
            return Ok(self.uncertified.drain(..).collect());
        }
        let held: usize = self.uncertified.iter().map(|block| block.results.len()).sum();
        if self.uncertified.len() > MAX_UNCERTIFIED_BLOCKS || held > MAX_ENCODED_BYTES {
            let first = self.uncertified[0].id.number;
            return Err(CheckError::Uncertified { first, blocks: self.uncertified.len() });
        }
        Ok(Vec::new())
    }
}
