//! Genesis blocks of test chains.

use chain::Genesis;

/// The genesis of a chain with Ethereum's rules whose London fork is at block 7.
pub fn london_at_block_7() -> Genesis {
    let file = serde_json::json!({
        "config": {
            "chainId": 1, "homesteadBlock": 0, "eip150Block": 0, "eip158Block": 0,
            "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0,
            "istanbulBlock": 0, "berlinBlock": 0, "londonBlock": 7,
        },
        "gasLimit": "0x5f5e100", "alloc": {},
    });
    Genesis::from_json(&file.to_string()).unwrap()
}
