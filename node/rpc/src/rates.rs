//! Limits the rate of the calls of a connection and of an address. The limits are disabled by default.

use budget::client_key;
use config::JsonRpc;
use governor::{
    DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter,
    clock::{Clock, DefaultClock},
};
use rpc_eth::method::QueueClass;
use rpc_eth::method::Run;
use rpc_types::error::Error;
use std::{
    net::IpAddr,
    num::NonZeroU32,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// Weight of a call in the long queue and in the short queue: about its cost compared with a read, which has weight 1.
const LONG_WEIGHT: u32 = 20;
const SHORT_WEIGHT: u32 = 4;
/// Number of connections after which the limits of inactive addresses are removed.
const SWEEP_CONNECTIONS: u32 = 1024;

/// The rate limits of all clients.
#[derive(Debug)]
pub(crate) struct Rates {
    connection: Option<Quota>,
    address: Option<(u32, DefaultKeyedRateLimiter<IpAddr>)>,
    connections: AtomicU32,
}

/// Creates a quota of calls per second, with the same burst; 0 means none. The minimum is the maximum weight of a call.
fn quota(calls: u32) -> Option<Quota> {
    NonZeroU32::new(calls).map(|calls| Quota::per_second(calls.max(max_weight())))
}

const fn max_weight() -> NonZeroU32 {
    NonZeroU32::new(LONG_WEIGHT).expect("it is not zero")
}

/// Returns the weight of a call when it arrives.
pub(crate) const fn weight(run: Run) -> NonZeroU32 {
    match run {
        Run::Queued(class, _) => class_weight(class),
        Run::Inline(_) | Run::Quick { .. } | Run::Waiting(_) => NonZeroU32::MIN,
    }
}

/// Returns the additional weight of a call that cannot be answered inline and is queued.
pub(crate) const fn further_weight(class: QueueClass) -> NonZeroU32 {
    NonZeroU32::new(class_weight(class).get() - 1).expect("a class weighs more than a read")
}

const fn class_weight(class: QueueClass) -> NonZeroU32 {
    let weight = match class {
        QueueClass::Long => LONG_WEIGHT,
        QueueClass::Short => SHORT_WEIGHT,
    };
    NonZeroU32::new(weight).expect("weights are not zero")
}

/// The rate limit of one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionRate(Option<(u32, DefaultDirectRateLimiter)>);

impl Rates {
    /// Creates the limits from the settings, in which zero means no limit.
    pub(crate) fn new(config: &JsonRpc) -> Self {
        let address = quota(config.rate_per_ip);
        Self {
            connection: quota(config.rate_per_connection),
            address: address.map(|quota| (quota.burst_size().get(), RateLimiter::keyed(quota))),
            connections: AtomicU32::new(0),
        }
    }

    /// Creates the limit of a new connection.
    pub(crate) fn connection(&self) -> ConnectionRate {
        if let Some((_, addresses)) = &self.address
            && self.connections.fetch_add(1, Relaxed) % SWEEP_CONNECTIONS == SWEEP_CONNECTIONS - 1
        {
            addresses.retain_recent();
        }
        let limiter = |quota: Quota| (quota.burst_size().get(), RateLimiter::direct(quota));
        ConnectionRate(self.connection.map(limiter))
    }

    /// Counts a call with a weight.
    ///
    /// # Errors
    /// Returns an error if the call exceeds a limit.
    pub(crate) fn admit(
        &self,
        connection: &ConnectionRate,
        address: IpAddr,
        weight: NonZeroU32,
    ) -> Result<(), Error> {
        let refused = |scope, limit, wait: governor::NotUntil<_>| {
            let wait_ms = wait.wait_time_from(DefaultClock::default().now()).as_millis();
            Error::rate(scope, limit, u64::try_from(wait_ms).unwrap_or(u64::MAX).max(1))
        };
        let fits = "a burst permits a call of the maximum weight";
        if let Some((limit, limiter)) = &connection.0 {
            let counted = limiter.check_n(weight).expect(fits);
            counted.map_err(|wait| refused("connection", *limit, wait))?;
        }
        if let Some((limit, limiter)) = &self.address {
            let counted = limiter.check_key_n(&client_key(address), weight).expect(fits);
            counted.map_err(|wait| refused("address", *limit, wait))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_up_to_the_limit_is_accepted() {
        let config = JsonRpc { rate_per_ip: 40, rate_per_connection: 30, ..JsonRpc::default() };
        let rates = Rates::new(&config);
        let cheap = weight(Run::Inline(|_| unreachable!("it is only counted")));
        let (first, second) = (rates.connection(), rates.connection());
        let address = IpAddr::from([10, 0, 0, 1]);
        let admitted =
            |rate| (0..100).filter(|_| rates.admit(rate, address, cheap).is_ok()).count();
        assert!((30..40).contains(&admitted(&first)), "a connection");
        assert!(admitted(&second) < 20, "both connections of an address");
        assert!(rates.admit(&rates.connection(), IpAddr::from([10, 0, 0, 2]), cheap).is_ok());
        let error = rates.admit(&first, address, cheap).expect_err("one too many");
        assert_eq!(error.code(), -32005);
        assert!(error.data().expect("data").get().contains("\"limit\":30"), "{error:?}");
    }

    #[test]
    fn the_minimum_limit_permits_a_heavy_call() {
        let config = JsonRpc { rate_per_connection: 1, ..JsonRpc::default() };
        let rates = Rates::new(&config);
        let heavy = weight(Run::Queued(QueueClass::Long, |_| unreachable!("it is only counted")));
        let (rate, address) = (rates.connection(), IpAddr::from([10, 0, 0, 1]));
        assert!(rates.admit(&rate, address, heavy).is_ok());
        assert!(rates.admit(&rate, address, heavy).is_err());
        // A call that was tried inline and then queued has the same weight.
        let rate = rates.connection();
        assert!(rates.admit(&rate, address, NonZeroU32::MIN).is_ok());
        assert!(rates.admit(&rate, address, further_weight(QueueClass::Long)).is_ok());
        assert!(rates.admit(&rate, address, NonZeroU32::MIN).is_err());
    }
}
