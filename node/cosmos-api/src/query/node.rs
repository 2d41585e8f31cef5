//! Describes the node and returns its blocks in the format of Cosmos tools. Hashes are those of the Ethereum header.

use super::{
    QueryError, Snapshot,
    proto::{
        cosmos::base::tendermint::v1beta1::{
            Block as SdkBlock, GetBlockByHeightResponse, GetLatestBlockResponse,
            GetNodeInfoResponse, GetSyncingResponse, Header as SdkHeader, VersionInfo,
        },
        tendermint::{
            p2p::{DefaultNodeInfo, DefaultNodeInfoOther, ProtocolVersion},
            types::{Block, BlockId, Header, PartSetHeader},
            version::Consensus,
        },
    },
};
use alloy_primitives::{B256, Bytes};
use prost_types::Timestamp;
use transactions::cosmos;

/// The version of CometBFT whose format is served. Clients use it to choose a decoder.
const COMETBFT_FORMAT: &str = "0.38.18";
/// The version of the SDK whose format is served. Clients use it to choose a decoder.
const SDK_FORMAT: &str = "v0.53.4";
/// CometBFT's block protocol in that version.
const BLOCK_PROTOCOL: u64 = 11;
/// CometBFT's peer protocol in that version.
const P2P_PROTOCOL: u64 = 8;

pub(super) fn block_id(hash: B256) -> BlockId {
    let part_set_header = Some(PartSetHeader { total: 1, hash: hash.to_vec() });
    BlockId { hash: hash.to_vec(), part_set_header }
}

/// Returns the timestamp of a block.
pub(super) fn time(timestamp: u64) -> Timestamp {
    Timestamp { seconds: i64::try_from(timestamp).unwrap_or(i64::MAX), nanos: 0 }
}

/// Converts a block number or an amount of gas for a signed field.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a transaction as clients broadcast it, without the type byte that a Cosmos transaction has in a block.
pub(super) fn without_type_byte(raw: &Bytes) -> Vec<u8> {
    let type_bytes = usize::from(cosmos::is_cosmos(raw));
    raw[type_bytes..].to_vec()
}

impl Snapshot {
    /// Returns information about this node.
    pub fn node_info(&self) -> GetNodeInfoResponse {
        let (p2p, block) = (P2P_PROTOCOL, BLOCK_PROTOCOL);
        GetNodeInfoResponse {
            default_node_info: Some(DefaultNodeInfo {
                protocol_version: Some(ProtocolVersion { p2p, block, app: 0 }),
                network: self.spec.chain_id.to_string(),
                version: COMETBFT_FORMAT.to_owned(),
                moniker: self.facts.moniker.clone(),
                other: Some(DefaultNodeInfoOther {
                    tx_index: "on".to_owned(),
                    rpc_address: self
                        .facts
                        .json_rpc
                        .map(|at| format!("http://{at}"))
                        .unwrap_or_default(),
                }),
                ..DefaultNodeInfo::default()
            }),
            application_version: Some(VersionInfo {
                name: "evmd".to_owned(),
                app_name: "evmd".to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                cosmos_sdk_version: SDK_FORMAT.to_owned(),
                ..VersionInfo::default()
            }),
        }
    }

    /// Returns whether this node follows others and is behind them.
    pub const fn syncing(&self) -> GetSyncingResponse {
        GetSyncingResponse { syncing: self.is_behind }
    }

    /// Returns this snapshot's block.
    ///
    /// # Errors
    /// If the block cannot be read.
    pub fn latest_block(&self) -> Result<GetLatestBlockResponse, QueryError> {
        let (id, block) = self.comet_block(self.number)?;
        let sdk_block = Some(self.sdk_block(&block));
        Ok(GetLatestBlockResponse { block_id: Some(id), block: Some(block), sdk_block })
    }

    /// Returns the block with this number.
    ///
    /// # Errors
    /// If there is no block with that number.
    pub fn block_by_height(&self, height: i64) -> Result<GetBlockByHeightResponse, QueryError> {
        let (id, block) = self.comet_block(self.existing_block(height)?)?;
        let sdk_block = Some(self.sdk_block(&block));
        Ok(GetBlockByHeightResponse { block_id: Some(id), block: Some(block), sdk_block })
    }

    /// Checks that a block exists and returns its number.
    pub(super) fn existing_block(&self, height: i64) -> Result<u64, QueryError> {
        let newest = self.view.number();
        let number = u64::try_from(height).ok().filter(|number| *number <= newest);
        number.ok_or_else(|| {
            QueryError::invalid(format!(
                "block {height} does not exist: the newest block is {newest}"
            ))
        })
    }

    /// Returns the header of a block, which must not be above the block of this snapshot.
    ///
    /// # Errors
    /// If the header cannot be read.
    pub fn block_header(&self, number: u64) -> Result<(BlockId, Header), QueryError> {
        let (hash, header) = self.header(number)?;
        let header = Header {
            version: Some(Consensus { block: BLOCK_PROTOCOL, app: 0 }),
            chain_id: self.spec.chain_id.to_string(),
            height: signed(number),
            time: Some(time(header.timestamp)),
            last_block_id: Some(block_id(header.parent_hash)),
            data_hash: header.transactions_root.to_vec(),
            app_hash: header.state_root.to_vec(),
            last_results_hash: header.receipts_root.to_vec(),
            proposer_address: self.proposer(header.beneficiary).to_vec(),
            ..Header::default()
        };
        Ok((block_id(hash), header))
    }

    fn sdk_block(&self, block: &Block) -> SdkBlock {
        let header = block.header.clone().unwrap_or_default();
        let proposer = header.proposer_address.as_slice().try_into();
        SdkBlock {
            header: Some(SdkHeader {
                version: header.version,
                chain_id: header.chain_id,
                height: header.height,
                time: header.time,
                last_block_id: header.last_block_id,
                last_commit_hash: header.last_commit_hash,
                data_hash: header.data_hash,
                validators_hash: header.validators_hash,
                next_validators_hash: header.next_validators_hash,
                consensus_hash: header.consensus_hash,
                app_hash: header.app_hash,
                last_results_hash: header.last_results_hash,
                evidence_hash: header.evidence_hash,
                proposer_address: self.consensus_address(proposer.unwrap_or_default()),
            }),
            data: block.data.clone(),
            evidence: block.evidence.clone(),
            last_commit: block.last_commit.clone(),
        }
    }
}
