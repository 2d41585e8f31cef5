//! `evmd debug verify-proof` checks a response of `eth_getProof` without a node.

use super::{certificate::read, trust::Trust};
use crate::cli::Output;
use alloy_primitives::{Address, B256, Bytes, U64, U256, keccak256};
use alloy_trie::{EMPTY_ROOT_HASH, KECCAK_EMPTY, Nibbles, TrieAccount, proof::verify_proof};
use anyhow::{Context, bail};
use home::BlockProof;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{io::Write, path::PathBuf};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// A file with the result or the whole response of `eth_getProof`; - for standard input
    proof: PathBuf,
    /// A file with the output of `evmd debug certificate` for the same block
    #[arg(long, value_name = "FILE")]
    certificate: PathBuf,
    #[command(flatten)]
    trust: Trust,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// The result of `eth_getProof` (EIP-1186).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccountProof {
    address: Address,
    account_proof: Vec<Bytes>,
    balance: U256,
    code_hash: B256,
    nonce: U64,
    storage_hash: B256,
    storage_proof: Vec<SlotProof>,
}

#[derive(Debug, Deserialize)]
struct SlotProof {
    key: U256,
    value: U256,
    proof: Vec<Bytes>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let is_not = |path: &PathBuf, what: &str| format!("{} is not {what}", path.display());
    let certified: BlockProof = serde_json::from_str(&read(&args.certificate)?)
        .with_context(|| is_not(&args.certificate, "the output of `evmd debug certificate`"))?;
    let block = certified.check(args.trust.authority()?)?;
    let header = certified.header()?;
    let mut response: Value =
        serde_json::from_str(&read(&args.proof)?).with_context(|| is_not(&args.proof, "JSON"))?;
    if response.get("result").is_some() {
        response = response["result"].take();
    }
    let proof: AccountProof = serde_json::from_value(response)
        .with_context(|| is_not(&args.proof, "an answer of eth_getProof"))?;
    proof.check(header.state_root)?;
    let AccountProof { address, balance, nonce, code_hash, .. } = proof;
    let mut out = crate::cli::stdout();
    match args.output {
        Output::Text => {
            writeln!(out, "In block {} {}, {address} has", block.number, block.hash)?;
            writeln!(out, "balance    {balance} wei\nnonce      {nonce}\ncode hash  {code_hash}")?;
            for slot in &proof.storage_proof {
                writeln!(out, "slot {:#x}  {:#x}", slot.key, slot.value)?;
            }
        }
        Output::Json => {
            let slots = proof.storage_proof.iter();
            let slots = slots.map(|slot| json!({ "key": slot.key, "value": slot.value }));
            let value = json!({
                "block": block, "address": address, "balance": balance, "nonce": nonce,
                "codeHash": code_hash, "storage": slots.collect::<Vec<_>>(),
            });
            writeln!(out, "{value}")?;
        }
    }
    Ok(())
}

impl AccountProof {
    /// Checks that the state with this root contains the account and the slots with these values.
    fn check(&self, state_root: B256) -> anyhow::Result<()> {
        let Self { address, balance, nonce, storage_hash, code_hash, .. } = self;
        let account = TrieAccount {
            nonce: nonce.to(),
            balance: *balance,
            storage_root: *storage_hash,
            code_hash: *code_hash,
        };
        // `eth_getProof` returns a missing account as an empty one.
        let is_missing = balance.is_zero()
            && nonce.is_zero()
            && [KECCAK_EMPTY, B256::ZERO].contains(code_hash)
            && [EMPTY_ROOT_HASH, B256::ZERO].contains(storage_hash);
        let expected = (!is_missing).then(|| alloy_rlp::encode(account));
        let key = Nibbles::unpack(keccak256(address));
        verify_proof(state_root, key, expected, &self.account_proof)
            .with_context(|| format!("the proof of account {address} is not valid"))?;
        for slot in &self.storage_proof {
            let expected = (!slot.value.is_zero()).then(|| alloy_rlp::encode(slot.value));
            let key = Nibbles::unpack(keccak256(B256::from(slot.key)));
            if is_missing {
                if expected.is_some() {
                    bail!(
                        "the account {address} does not exist, and slot {:#x} has a value",
                        slot.key
                    );
                }
                continue;
            }
            verify_proof(*storage_hash, key, expected, &slot.proof)
                .with_context(|| format!("the proof of slot {:#x} is not valid", slot.key))?;
        }
        Ok(())
    }
}
