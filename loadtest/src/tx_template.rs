//! Signs the transactions of a load.

use crate::{
    keys::{Key, Signer},
    token,
};
use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, TxKind, U256};

/// Gas limit of a transfer.
pub(crate) const TRANSFER_GAS: u64 = 21_000;
/// Gas limit of a token transfer, which uses about 52,000 gas if the recipient is new.
pub(crate) const TOKEN_GAS: u64 = 60_000;
/// Gas limit of the token's deployment.
pub(crate) const CREATION_GAS: u64 = 200_000;

/// Kind of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Load {
    /// Transfers of ether
    #[default]
    Transfer,
    /// Transfers of an ERC-20 token
    Erc20,
    /// Half of each
    Mixed,
}

impl Load {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Transfer => "transfer",
            Self::Erc20 => "erc20",
            Self::Mixed => "mixed",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Transfer, Self::Erc20, Self::Mixed].into_iter().find(|load| load.name() == name)
    }

    /// Returns whether the transaction with this index transfers the token.
    pub(crate) const fn is_token(self, index: u64) -> bool {
        match self {
            Self::Transfer => false,
            Self::Erc20 => true,
            Self::Mixed => index.is_multiple_of(2),
        }
    }

    /// Returns the maximum gas limit of a transaction.
    pub(crate) const fn max_gas(self) -> u64 {
        match self {
            Self::Transfer => TRANSFER_GAS,
            Self::Erc20 | Self::Mixed => TOKEN_GAS,
        }
    }
}

/// The fields that all transactions of a load share.
#[derive(Clone, Debug)]
pub(crate) struct TxTemplate {
    pub(crate) chain_id: u64,
    /// In wei per gas.
    pub(crate) fee_cap: u128,
    /// In wei per gas.
    pub(crate) priority_fee: u128,
    /// Address of the token; zero before it is deployed.
    pub(crate) token: Address,
    pub(crate) signer: Signer,
}

impl TxTemplate {
    /// Signs a transfer of ether; returns EIP-2718 bytes.
    pub(crate) fn transfer(&self, key: &Key, nonce: u64, to: Address, wei: U256) -> Vec<u8> {
        self.sign(key, nonce, TxKind::Call(to), wei, TRANSFER_GAS, Vec::new())
    }

    /// Signs a transfer of the token.
    pub(crate) fn token_transfer(
        &self,
        key: &Key,
        nonce: u64,
        to: Address,
        amount: u64,
    ) -> Vec<u8> {
        let data = token::transfer(to, amount);
        self.sign(key, nonce, TxKind::Call(self.token), U256::ZERO, TOKEN_GAS, data)
    }

    /// Signs the deployment of the token.
    pub(crate) fn creation(&self, key: &Key, nonce: u64) -> Vec<u8> {
        let code = token::creation_code();
        self.sign(key, nonce, TxKind::Create, U256::ZERO, CREATION_GAS, code)
    }

    fn sign(
        &self,
        key: &Key,
        nonce: u64,
        to: TxKind,
        value: U256,
        gas_limit: u64,
        input: Vec<u8>,
    ) -> Vec<u8> {
        let tx = TxEip1559 {
            chain_id: self.chain_id,
            nonce,
            gas_limit,
            max_fee_per_gas: self.fee_cap,
            max_priority_fee_per_gas: self.priority_fee,
            to,
            value,
            input: input.into(),
            ..TxEip1559::default()
        };
        let digest = tx.signature_hash();
        let signature = self.signer.sign(key, digest, nonce);
        TxEnvelope::from(tx.into_signed(signature)).encoded_2718()
    }
}
