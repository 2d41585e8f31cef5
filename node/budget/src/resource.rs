//! One resource with a limit, and the rule by which clients share it.

use super::{Evictable, Networks, client_key, networks::levels};
use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Above `limit / FAIR_SHARE` in total, the client or network that uses the most is refused.
const FAIR_SHARE: u64 = 2;
/// Evicted owners release their parts when their tasks run. Until then the limit may be exceeded by
/// `limit / MAX_LEAVING_SHARE`, and by the use of the last evicted owner.
const MAX_LEAVING_SHARE: u64 = 8;

/// A resource with a limit that all clients share.
#[derive(Debug)]
pub struct Resource {
    name: &'static str,
    limit: u64,
    limit_per_client: u64,
    /// When the resource is fully used, an owner that has been idle for longer is evicted for any client.
    max_idle: Option<Duration>,
    state: Mutex<State>,
}

/// Why a request for a part of a resource is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The client has reached the limit for one client.
    PerClient(u64),
    /// More than half is used, and this client or its network uses the most.
    Largest(u64),
    /// The request does not fit. No other client uses enough more, or too many evicted owners still hold their parts.
    Full(u64),
    /// The owner has already been evicted.
    Evicted(u64),
}

impl Refused {
    /// Returns the limit that was reached: that of all clients together or that of one client.
    pub const fn limit(self) -> u64 {
        match self {
            Self::PerClient(limit)
            | Self::Largest(limit)
            | Self::Full(limit)
            | Self::Evicted(limit) => limit,
        }
    }
}

/// The use of a resource.
#[derive(Clone, Copy, Debug)]
pub struct ResourceReading {
    /// The name, as in the metrics.
    pub name: &'static str,
    /// The limit of all clients together.
    pub limit: u64,
    /// The current use.
    pub used: u64,
    /// Refused acquisitions since the start.
    pub refused: u64,
    /// Evicted owners since the start.
    pub evicted: u64,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// The part that evicted owners have not released yet.
    leaving: u64,
    next_claim: u64,
    clients: BTreeMap<IpAddr, Holdings>,
    refused: u64,
    evicted: u64,
}

/// The use of one client.
#[derive(Debug, Default)]
struct Holdings {
    held: u64,
    /// Whether this is a trusted proxy, which represents many clients.
    is_proxy: bool,
    claims: BTreeMap<u64, Claim>,
}

#[derive(Debug)]
struct Claim {
    amount: u64,
    owner: Arc<Evictable>,
}

impl Resource {
    /// Creates a resource with a limit for all clients together.
    pub fn new(name: &'static str, limit: u64) -> Self {
        let (limit_per_client, max_idle) = (u64::MAX, None);
        Self { name, limit, limit_per_client, max_idle, state: Mutex::default() }
    }

    pub(super) fn with_limit_per_client(self, limit_per_client: u64) -> Self {
        Self { limit_per_client, ..self }
    }

    pub(super) fn with_max_idle(self, max_idle: Duration) -> Self {
        Self { max_idle: Some(max_idle), ..self }
    }

    /// Returns the limit of all clients together.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current use.
    pub fn reading(&self) -> ResourceReading {
        let State { used, refused, evicted, .. } = *self.lock();
        ResourceReading { name: self.name, limit: self.limit, used, refused, evicted }
    }

    /// Acquires a part for a client. `owner` may be evicted later for a client that uses less.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn acquire(
        self: &Arc<Self>,
        client: IpAddr,
        amount: u64,
        owner: &Arc<Evictable>,
    ) -> Result<Held, Refused> {
        self.acquire_as(client, false, amount, owner)
    }

    /// Does the same as [`Self::acquire`]. A trusted proxy (`is_proxy`) represents many clients, so it is neither
    /// limited as a single client nor evicted.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn acquire_as(
        self: &Arc<Self>,
        client: IpAddr,
        is_proxy: bool,
        amount: u64,
        owner: &Arc<Evictable>,
    ) -> Result<Held, Refused> {
        let client = client_key(client);
        let state = &mut *self.lock();
        if owner.is_evicted() {
            return Err(Refused::Evicted(self.limit));
        }
        self.admit(state, client, is_proxy, amount)?;
        let claim = state.next_claim;
        state.next_claim += 1;
        state.used += amount;
        let holdings = state.clients.entry(client).or_default();
        holdings.is_proxy = is_proxy;
        holdings.held += amount;
        holdings.claims.insert(claim, Claim { amount, owner: Arc::clone(owner) });
        Ok(Held { resource: Arc::clone(self), client, claim, amount })
    }

    /// Decides whether a client may use more, evicts owners for it, and counts refusals.
    fn admit(
        &self,
        state: &mut State,
        client: IpAddr,
        is_proxy: bool,
        amount: u64,
    ) -> Result<(), Refused> {
        let admitted = self.decide(state, client, is_proxy, amount);
        state.refused += u64::from(admitted.is_err());
        admitted
    }

    fn decide(
        &self,
        state: &mut State,
        client: IpAddr,
        is_proxy: bool,
        amount: u64,
    ) -> Result<(), Refused> {
        let own = state.clients.get(&client).map_or(0, |holdings| holdings.held);
        if !is_proxy && own.saturating_add(amount) > self.limit_per_client {
            return Err(Refused::PerClient(self.limit_per_client));
        }
        if amount > self.limit {
            return Err(Refused::Full(self.limit));
        }
        if state.used + amount <= self.limit / FAIR_SHARE {
            return Ok(());
        }
        let full = if is_proxy { 0 } else { state.levels_with_the_most(client) };
        if full > 0 {
            // The client's network uses the most, so an owner within that network has to be evicted.
            return self.make_room_within(state, client, full, amount);
        }
        while state.used + amount > self.limit {
            let victim = state.idlest_of_rival(client, amount, 0);
            let victim = victim.or_else(|| state.idlest(self.max_idle?));
            let (client, claim) = victim.ok_or(Refused::Full(self.limit))?;
            self.evict(state, client, claim)?;
        }
        Ok(())
    }

    /// Evicts owners of other clients in the client's network, which are compared from `level` on, until their claims
    /// cover `amount`.
    fn make_room_within(
        &self,
        state: &mut State,
        client: IpAddr,
        level: usize,
        amount: u64,
    ) -> Result<(), Refused> {
        let target = state.used.saturating_sub(amount);
        while state.used > target {
            let victim = state.idlest_of_rival(client, amount, level);
            let (client, claim) = victim.ok_or(Refused::Largest(self.limit))?;
            self.evict(state, client, claim)?;
        }
        Ok(())
    }

    fn evict(&self, state: &mut State, client: IpAddr, claim: u64) -> Result<(), Refused> {
        if state.leaving > self.limit / MAX_LEAVING_SHARE {
            return Err(Refused::Full(self.limit));
        }
        state.evict(client, claim);
        Ok(())
    }
}

impl State {
    fn networks(&self) -> Networks<'_, Holdings> {
        let evictable = |holdings: &Holdings| if holdings.is_proxy { 0 } else { holdings.held };
        Networks { clients: &self.clients, held: |holdings| holdings.held, evictable }
    }

    /// Returns the number of levels, from the largest networks down, at which the client's network uses more than every
    /// other network, and another one uses something.
    fn levels_with_the_most(&self, client: IpAddr) -> usize {
        let networks = self.networks();
        let has_the_most = |level: &usize| {
            let others = networks.held_by_others(client, *level);
            others > 0 && networks.held(client, *level) > others
        };
        (0..levels(client)).take_while(has_the_most).count()
    }

    /// Returns the longest idle claim of the client that has to release `amount` for this one. Levels before `level`
    /// are not compared.
    fn idlest_of_rival(&self, client: IpAddr, amount: u64, level: usize) -> Option<(IpAddr, u64)> {
        let rival = self.networks().rival(client, amount, level)?;
        let (claim, _) = self.clients.get(&rival)?.idlest()?;
        Some((rival, claim))
    }

    /// Returns the longest idle claim of all clients except proxies, if it has been idle for longer than `max_idle`.
    fn idlest(&self, max_idle: Duration) -> Option<(IpAddr, u64)> {
        let idlest = self.clients.iter().filter(|(_, holdings)| !holdings.is_proxy);
        let idlest = idlest.filter_map(|(address, holdings)| Some((*address, holdings.idlest()?)));
        let (address, (number, claim)) =
            idlest.min_by_key(|(_, (_, claim))| claim.owner.active_ms())?;
        (claim.owner.idle() > max_idle).then_some((address, number))
    }

    /// Evicts the owner of a claim, with all of its claims. A response has many claims, and searching for the
    /// next idle claim for each of them would take a long time.
    fn evict(&mut self, client: IpAddr, claim: u64) {
        let Some(holdings) = self.clients.get(&client) else { return };
        let Some(Claim { owner, .. }) = holdings.claims.get(&claim) else { return };
        let owner = Arc::clone(owner);
        let of_owner =
            holdings.claims.iter().filter(|(_, claim)| Arc::ptr_eq(&claim.owner, &owner));
        let numbers: Vec<_> = of_owner.map(|(number, _)| *number).collect();
        let removed = numbers.into_iter().filter_map(|number| self.remove(client, number));
        self.leaving += removed.map(|claim| claim.amount).sum::<u64>();
        self.evicted += 1;
        owner.evict();
    }

    /// Removes a claim, unless its owner has already been evicted.
    fn remove(&mut self, client: IpAddr, claim: u64) -> Option<Claim> {
        let holdings = self.clients.get_mut(&client)?;
        let claim = holdings.claims.remove(&claim)?;
        holdings.held -= claim.amount;
        if holdings.claims.is_empty() {
            self.clients.remove(&client);
        }
        self.used -= claim.amount;
        Some(claim)
    }
}

impl Holdings {
    fn idlest(&self) -> Option<(u64, &Claim)> {
        let claims = self.claims.iter().filter(|(_, claim)| claim.amount > 0);
        let (number, claim) = claims.min_by_key(|(_, claim)| claim.owner.active_ms())?;
        Some((*number, claim))
    }
}

/// A part of a resource, released when dropped.
#[derive(Debug)]
pub struct Held {
    resource: Arc<Resource>,
    client: IpAddr,
    claim: u64,
    amount: u64,
}

impl Held {
    /// Returns the amount of this part.
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// Increases the part by `more`.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn grow(&mut self, more: u64) -> Result<(), Refused> {
        if more == 0 {
            return Ok(());
        }
        let resource = Arc::clone(&self.resource);
        let state = &mut *resource.lock();
        let known = |state: &State| {
            let holdings = state.clients.get(&self.client)?;
            holdings.claims.contains_key(&self.claim).then_some(holdings.is_proxy)
        };
        let is_proxy = known(state).ok_or(Refused::Evicted(resource.limit))?;
        resource.admit(state, self.client, is_proxy, more)?;
        let holdings = state.clients.get_mut(&self.client).expect("it was found above");
        let claim = holdings.claims.get_mut(&self.claim).expect("only others were evicted");
        claim.amount += more;
        holdings.held += more;
        state.used += more;
        self.amount += more;
        Ok(())
    }

    /// Splits off `part`, or all if less is held. It is released independently.
    pub fn split(&mut self, part: u64) -> Self {
        let resource = Arc::clone(&self.resource);
        let state = &mut *resource.lock();
        let part = part.min(self.amount);
        self.amount -= part;
        let claim = state.next_claim;
        state.next_claim += 1;
        if let Some(holdings) = state.clients.get_mut(&self.client)
            && let Some(whole) = holdings.claims.get_mut(&self.claim)
        {
            whole.amount -= part;
            let owner = Arc::clone(&whole.owner);
            holdings.claims.insert(claim, Claim { amount: part, owner });
        }
        Self { resource: Arc::clone(&resource), client: self.client, claim, amount: part }
    }

    /// Decreases the part by `less`, or to 0 if less is held.
    pub fn shrink(&mut self, less: u64) {
        let less = less.min(self.amount);
        if less == 0 {
            return;
        }
        let state = &mut *self.resource.lock();
        self.amount -= less;
        let Some(holdings) = state.clients.get_mut(&self.client) else {
            state.leaving -= less;
            return;
        };
        match holdings.claims.get_mut(&self.claim) {
            Some(claim) => {
                claim.amount -= less;
                holdings.held -= less;
                state.used -= less;
            }
            None => state.leaving -= less,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let state = &mut *self.resource.lock();
        if state.remove(self.client, self.claim).is_none() {
            state.leaving -= self.amount;
        }
    }
}

#[cfg(test)]
mod tests;
