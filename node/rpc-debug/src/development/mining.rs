//! Produces blocks on request, and sets the time and other fields of the next blocks.

use super::{
    Answer, B256, Call, Develop, Error, accounts::done, develop, development, json, mining,
};
use chain::ChainSpec;
use pipeline::Mining;
use rpc_types::params::{Number, Param};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::time::Duration;
use tokio::time::timeout;

/// Maximum wait for requested blocks. Some thousand are produced per second.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// The parameter of `evm_mine`.
#[derive(Debug, Default)]
struct MineOptions {
    timestamp: Option<u64>,
    blocks: Option<u64>,
}

impl Param for MineOptions {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Object<'a> {
            #[serde(borrow, default)]
            timestamp: Option<&'a RawValue>,
            #[serde(borrow, default)]
            blocks: Option<&'a RawValue>,
        }
        if !json.trim_start().starts_with('{') {
            let timestamp = Number::read(json, spec)?.0;
            // Hardhat treats 0 as no timestamp.
            return Ok(Self { timestamp: Some(timestamp).filter(|time| *time > 0), blocks: None });
        }
        let Object { timestamp, blocks } =
            serde_json::from_str(json).map_err(|error| error.to_string())?;
        let number = |raw: Option<&RawValue>| {
            raw.map(|raw| Number::read(raw.get(), spec).map(|number| number.0)).transpose()
        };
        Ok(Self { timestamp: number(timestamp)?, blocks: number(blocks)? })
    }
}

/// Sends a request for blocks, and waits until the last one is durable. The head is not undone meanwhile.
pub(super) async fn produce(call: &Call, request: Develop) -> Result<(), Error> {
    let _changing = development(call)?.changing.lock().await;
    let mut heads = call.context.published.heads();
    let developed = develop(call, request).await?;
    let reached = heads.wait_for(|number| *number >= developed.last_block);
    match timeout(MAX_WAIT, reached).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) => Err(Error::server("the node is stopping")),
        Err(_) => Err(Error::server(format!("the blocks were not produced within {MAX_WAIT:?}"))),
    }
}

/// Implements `anvil_mine` and `hardhat_mine`.
pub(super) async fn mine(call: Call) -> Answer {
    let (count, interval) = {
        let mut arguments = call.arguments()?;
        let count = arguments.optional()?.unwrap_or(Number(1)).0;
        (count, arguments.optional()?.map(|Number(interval)| interval))
    };
    produce(&call, Develop::Mine { count, interval }).await?;
    json(&Value::Null)
}

/// Implements `evm_mine`.
pub(super) async fn evm_mine(call: Call) -> Answer {
    let options: MineOptions = call.arguments()?.optional()?.unwrap_or_default();
    if let Some(timestamp) = options.timestamp {
        develop(&call, Develop::SetNextTimestamp(timestamp)).await?;
    }
    let count = options.blocks.unwrap_or(1);
    produce(&call, Develop::Mine { count, interval: None }).await?;
    json("0x0")
}

pub(super) fn set_automine(call: &Call) -> Answer {
    let enabled: bool = call.arguments()?.required()?;
    let control = mining(call)?;
    match (enabled, control.get()) {
        (true, _) => control.set(Mining::Instant),
        (false, Mining::Instant) => control.set(Mining::OnRequest),
        (false, _) => {}
    }
    call.context.pool.wake();
    json(&Value::Null)
}

pub(super) fn get_automine(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&(mining(call)?.get() == Mining::Instant))
}

pub(super) fn set_interval(call: &Call) -> Answer {
    let Number(seconds) = call.arguments()?.required()?;
    let control = mining(call)?;
    control.set(match seconds {
        0 => Mining::OnRequest,
        _ => Mining::Every(Duration::from_secs(seconds)),
    });
    call.context.pool.wake();
    json(&Value::Null)
}

pub(super) fn get_interval(call: &Call) -> Answer {
    call.no_arguments()?;
    json(&match mining(call)?.get() {
        Mining::Every(interval) => Some(interval.as_secs()),
        Mining::Instant | Mining::OnRequest => None,
    })
}

pub(super) async fn increase_time(call: Call) -> Answer {
    let Number(seconds) = call.arguments()?.required()?;
    let developed = develop(&call, Develop::IncreaseTime(seconds)).await?;
    json(&developed.settings.clock.offset_s)
}

pub(super) async fn set_next_timestamp(call: Call) -> Answer {
    let Number(timestamp) = call.arguments()?.required()?;
    develop(&call, Develop::SetNextTimestamp(timestamp)).await?;
    json(&Value::Null)
}

pub(super) async fn set_timestamp_interval(call: Call) -> Answer {
    let Number(seconds) = call.arguments()?.required()?;
    develop(&call, Develop::SetTimestampInterval(Some(seconds))).await?;
    json(&Value::Null)
}

/// Removes the interval, and returns whether there was one.
pub(super) async fn remove_timestamp_interval(call: Call) -> Answer {
    call.no_arguments()?;
    let was_set = call.context.pool.next_block_settings().clock.interval_s.is_some();
    develop(&call, Develop::SetTimestampInterval(None)).await?;
    json(&was_set)
}

pub(super) async fn set_next_base_fee(call: Call) -> Answer {
    let Number(wei) = call.arguments()?.required()?;
    develop(&call, Develop::SetNextBaseFee(wei)).await?;
    done(&call)
}

pub(super) async fn set_prev_randao(call: Call) -> Answer {
    let value = call.arguments()?.required()?;
    develop(&call, Develop::SetPrevRandao(value)).await?;
    done(&call)
}

pub(super) async fn set_coinbase(call: Call) -> Answer {
    let address = call.arguments()?.required()?;
    develop(&call, Develop::SetCoinbase(address)).await?;
    done(&call)
}

pub(super) async fn drop_transaction(call: Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    let developed = develop(&call, Develop::DropTransaction(hash)).await?;
    json(&developed.dropped.then_some(hash))
}

pub(super) async fn hardhat_drop_transaction(call: Call) -> Answer {
    let hash: B256 = call.arguments()?.required()?;
    json(&develop(&call, Develop::DropTransaction(hash)).await?.dropped)
}
