//! The block that validators agree on: a block of the chain, with the consensus context in which it was proposed.

use alloy_primitives::{B256, Bytes};
use bytes::BufMut;
use chain::{block::Block, commits_to};
use commonware_codec::{Buf, Encode, EncodeSize, Error, RangeCfg, Read, ReadExt, Write};
use commonware_consensus::{
    Block as AgreedBlock, BoundedBlock, CertifiableBlock, Heightable,
    simplex::types::Context,
    types::{Epoch, Height, Round, View},
};
use commonware_cryptography::{
    Digestible, Hasher,
    ed25519::PublicKey,
    keccak256::{Digest, Keccak256},
};

pub(super) type ProposalContext = Context<Digest, PublicKey>;

/// A proposed block; see the module documentation. Its digest commits to the context and to the hash of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProposedBlock {
    context: ProposalContext,
    /// The RLP encoding of the block.
    encoded: Bytes,
    /// Values of the header.
    pub(super) number: u64,
    pub(super) timestamp: u64,
    pub(super) hash: B256,
    pub(super) parent_hash: B256,
}

impl ProposedBlock {
    /// Returns the block if the bytes are the RLP encoding of one whose header commits to its body. Without this check,
    /// a peer could send another body with the same digest.
    pub(super) fn new(context: ProposalContext, encoded: Bytes) -> Option<Self> {
        let block = Block::decode(&encoded).ok()?;
        if !commits_to(&block.header, &block.body()) {
            return None;
        }
        let header = &block.header;
        let (number, timestamp, parent_hash) =
            (header.number, header.timestamp, header.parent_hash);
        Some(Self { context, encoded, number, timestamp, hash: block.hash, parent_hash })
    }

    /// Creates the genesis block, in the context before the first view.
    pub(super) fn genesis(leader: PublicKey, encoded: Bytes) -> Option<Self> {
        let round = Round::new(Epoch::zero(), View::zero());
        let context = Context { round, leader, parent: (View::zero(), Digest([0; 32])) };
        Self::new(context, encoded)
    }

    /// The key of the validator that proposed the block: the leader of the view.
    pub(super) fn proposer(&self) -> B256 {
        B256::from_slice(self.context.leader.as_ref())
    }

    pub(super) const fn encoded(&self) -> &Bytes {
        &self.encoded
    }
}

impl Heightable for ProposedBlock {
    fn height(&self) -> Height {
        Height::new(self.number)
    }
}

impl Digestible for ProposedBlock {
    type Digest = Digest;

    fn digest(&self) -> Digest {
        Keccak256::hash(&[&self.context.encode(), self.hash.as_slice()])
    }
}

impl AgreedBlock for ProposedBlock {
    fn parent(&self) -> Digest {
        self.context.parent.1
    }
}

impl CertifiableBlock for ProposedBlock {
    type Context = ProposalContext;

    fn context(&self) -> ProposalContext {
        self.context.clone()
    }
}

impl Write for ProposedBlock {
    fn write(&self, out: &mut impl BufMut) {
        self.context.write(out);
        self.encoded.0.write(out);
    }
}

impl EncodeSize for ProposedBlock {
    fn encode_size(&self) -> usize {
        self.context.encode_size() + self.encoded.0.encode_size()
    }
}

impl Read for ProposedBlock {
    /// Maximum bytes of the encoded block.
    type Cfg = usize;

    fn read_cfg(from: &mut impl Buf, max_bytes: &usize) -> Result<Self, Error> {
        let context = ProposalContext::read(from)?;
        let encoded = bytes::Bytes::read_cfg(from, &RangeCfg::new(..=*max_bytes))?;
        Self::new(context, encoded.into()).ok_or(Error::Invalid("block", "not an encoded block"))
    }
}

impl BoundedBlock for ProposedBlock {
    fn max_encode_size(max_bytes: &usize) -> usize {
        // The context has two varints for the round, a key, and a varint and a digest for the parent.
        const CONTEXT_BYTES: usize = 3 * 10 + 32 + 32;
        CONTEXT_BYTES + 10 + *max_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::Header;
    use chain::block::join;
    use commonware_codec::Decode;
    use commonware_cryptography::{Signer, ed25519::PrivateKey};

    const MAX_BYTES: usize = 1_000;

    fn encoded(header: &Header, transactions: &[Bytes]) -> Bytes {
        let block = Block { transactions: transactions.to_vec(), ..Block::default() };
        join(&alloy_rlp::encode(header), &block.encode_body()).into()
    }

    /// Another body, more bytes than the limit, and bytes after the block are rejected.
    #[test]
    fn only_the_encoding_of_the_block_is_accepted() {
        let leader = PrivateKey::from_seed(1).public_key();
        let header = Header::default();
        let block = ProposedBlock::genesis(leader, encoded(&header, &[])).unwrap();
        let bytes = block.encode();
        let decoded = ProposedBlock::decode_cfg(bytes.clone(), &MAX_BYTES).unwrap();
        assert_eq!((decoded.encode(), decoded.digest()), (bytes.clone(), block.digest()));
        let length = block.encoded().len();
        assert!(ProposedBlock::decode_cfg(bytes.clone(), &length).is_ok());
        assert!(ProposedBlock::decode_cfg(bytes.clone(), &(length - 1)).is_err());
        assert!(bytes.len() <= ProposedBlock::max_encode_size(&length));
        let mut longer = bytes.to_vec();
        longer.push(0);
        assert!(ProposedBlock::decode_cfg(longer, &MAX_BYTES).is_err());
        for body in [vec![Bytes::from_static(&[2, 1])], vec![Bytes::from_static(&[0xc0]); 2]] {
            let other = ProposedBlock { encoded: encoded(&header, &body), ..block.clone() };
            assert_eq!(other.digest(), block.digest());
            assert!(ProposedBlock::decode_cfg(other.encode(), &MAX_BYTES).is_err());
        }
    }
}
