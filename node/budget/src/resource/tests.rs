//! Tests the sharing rule with examples and with random steps.

use super::*;
use proptest::prelude::*;

fn client(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

fn resource(limit: u64) -> Arc<Resource> {
    Arc::new(Resource::new("test", limit))
}

/// Acquires single units until one is refused.
fn fill(resource: &Arc<Resource>, of: IpAddr) -> (Vec<(Arc<Evictable>, Held)>, Refused) {
    let mut taken = Vec::new();
    loop {
        let owner = Arc::new(Evictable::default());
        match resource.acquire(of, 1, &owner) {
            Ok(held) => taken.push((owner, held)),
            Err(refused) => return (taken, refused),
        }
    }
}

#[test]
fn one_client_may_use_everything_while_no_other_needs_any() {
    let resource = resource(10);
    let (taken, refused) = fill(&resource, client(1));
    assert_eq!((taken.len(), refused), (10, Refused::Full(10)));
    drop(taken);
    assert_eq!(resource.reading().used, 0);
    assert!(resource.lock().clients.is_empty(), "no address is remembered");
}

#[test]
fn client_that_uses_the_most_is_refused_above_one_half() {
    let resource = resource(10);
    let owner = Arc::new(Evictable::default());
    let _other = resource.acquire(client(2), 1, &owner).unwrap();
    let (taken, refused) = fill(&resource, client(1));
    assert_eq!((taken.len(), refused), (4, Refused::Largest(10)));
    // The other client continues until it uses the most.
    let (others, refused) = fill(&resource, client(2));
    assert_eq!((others.len(), refused), (4, Refused::Largest(10)));
    // A third client gets the rest.
    let _third = resource.acquire(client(3), 1, &owner).unwrap();
    assert_eq!(resource.reading().used, 10);
}

#[test]
fn new_client_evicts_the_longest_idle_owner_of_the_largest_client() {
    let resource = resource(10);
    let (mut taken, _) = fill(&resource, client(1));
    // The fourth has been idle for the longest time.
    for (number, (owner, _)) in taken.iter().enumerate() {
        owner
            .active_ms
            .store(if number == 3 { 1 } else { 2 }, std::sync::atomic::Ordering::Relaxed);
    }
    let owner = Arc::new(Evictable::default());
    let newcomer = resource.acquire(client(2), 1, &owner).unwrap();
    let evicted: Vec<_> = taken.iter().map(|(owner, _)| owner.is_evicted()).collect();
    assert_eq!(evicted.iter().position(|evicted| *evicted), Some(3));
    assert_eq!(evicted.iter().filter(|evicted| **evicted).count(), 1);
    assert_eq!((resource.reading().used, resource.lock().leaving), (10, 1));
    assert_eq!(taken[3].1.grow(1), Err(Refused::Evicted(10)));
    taken.remove(3);
    assert_eq!((resource.reading().used, resource.lock().leaving), (10, 0));
    drop((newcomer, taken));
    assert_eq!(resource.reading().used, 0);
}

#[test]
fn clients_with_equal_use_do_not_evict_each_other() {
    let resource = resource(4);
    let (mut first, _) = fill(&resource, client(1));
    let mut second = Vec::new();
    let refused = loop {
        match resource.acquire(client(2), 1, &Arc::default()) {
            Ok(held) => second.push(held),
            Err(refused) => break refused,
        }
        // The evicted owners release their parts.
        first.retain(|(owner, _)| !owner.is_evicted());
    };
    assert_eq!((first.len(), second.len(), refused), (2, 2, Refused::Full(4)));
}

/// Returns a client in the /64 with this number of a /48.
fn host(network: &str, number: u16) -> IpAddr {
    format!("{network}:{number:x}::1").parse().unwrap()
}

#[test]
fn network_with_many_clients_is_refused_as_a_whole() {
    let resource = resource(100);
    let attack = |resource: &Arc<Resource>, number: u16| {
        let owner = Arc::new(Evictable::default());
        let held = resource.acquire(host("2001:db8:1", number), 1, &owner);
        held.map(|held| (owner, held))
    };
    let mut taken: Vec<_> = (0..100).map(|number| attack(&resource, number).unwrap()).collect();
    // Other clients get the same share, whatever their addresses are.
    let others: [IpAddr; 2] = [client(1), host("2001:db8:2", 7)];
    let mut kept = Vec::new();
    for _ in 0..30 {
        for other in others {
            let owner = Arc::new(Evictable::default());
            kept.push((resource.acquire(other, 1, &owner).unwrap(), owner));
            taken.retain(|(owner, _)| !owner.is_evicted());
        }
    }
    assert_eq!(taken.len(), 40);
    assert!(kept.iter().all(|(_, owner)| !owner.is_evicted()));
    // Now the /48 uses the most, and another client of it is refused.
    assert_eq!(attack(&resource, 200).err(), Some(Refused::Largest(100)));
}

#[test]
fn clients_of_one_network_make_room_for_each_other() {
    let resource = resource(10);
    let owner = Arc::new(Evictable::default());
    let _other = resource.acquire(client(1), 1, &owner).unwrap();
    // A /56 of a provider's /48 takes all that the /48 can get, with one connection for each /64.
    let attackers: Vec<_> = (0..10)
        .map_while(|number| {
            let owner = Arc::new(Evictable::default());
            let held = resource.acquire(host("2001:db8:1", number), 1, &owner).ok()?;
            Some((owner, held))
        })
        .collect();
    assert_eq!(attackers.len(), 4, "as many as one IPv4 address");
    // A client in another /56 of the same /48 is served, because its network evicts one of its own connections.
    let honest = Arc::new(Evictable::default());
    let _held = resource.acquire(host("2001:db8:1", 0x100), 1, &honest).unwrap();
    assert_eq!(attackers.iter().filter(|(owner, _)| owner.is_evicted()).count(), 1);
    assert!(!owner.is_evicted() && !honest.is_evicted());
}

#[test]
fn evictions_stop_if_owners_do_not_release_their_parts() {
    let resource = resource(80);
    let (first, _) = fill(&resource, client(1));
    let (second, refused) = fill(&resource, client(2));
    // Evictions stop after an eighth of the limit and one more, because no evicted owner has released its part.
    assert_eq!((second.len(), refused), (11, Refused::Full(80)));
    assert_eq!(resource.lock().leaving, 11);
    drop(first);
    assert_eq!(resource.lock().leaving, 0);
}

#[test]
fn proxy_is_neither_limited_as_one_client_nor_evicted() {
    let resource = Arc::new(Resource::new("test", 10).with_limit_per_client(3));
    let (taken, refused) = fill(&resource, client(1));
    assert_eq!((taken.len(), refused), (3, Refused::PerClient(3)));
    let owner = Arc::new(Evictable::default());
    let proxied: Vec<_> =
        std::iter::from_fn(|| resource.acquire_as(client(2), true, 1, &owner).ok()).collect();
    assert_eq!(proxied.len(), 7, "the rest of the resource");
    assert!(resource.acquire(client(3), 1, &Arc::default()).is_ok(), "evicts another");
    assert!(!owner.is_evicted());
}

#[test]
fn idle_owner_is_evicted_for_any_client_if_max_idle_is_set() {
    let resource = Arc::new(Resource::new("test", 2).with_max_idle(Duration::ZERO));
    let old = Arc::new(Evictable::idle_since(0));
    let _held = [(); 2].map(|()| resource.acquire(client(1), 1, &old).unwrap());
    // The owner has been idle for longer than `max_idle`, which is zero, as soon as the clock advances.
    while old.idle().is_zero() {
        std::hint::spin_loop();
    }
    assert!(resource.acquire(client(1), 1, &Arc::default()).is_ok());
    assert!(old.is_evicted());
}

#[test]
fn request_above_the_limit_evicts_no_owner() {
    let resource = resource(10);
    let (taken, _) = fill(&resource, client(1));
    assert_eq!(resource.acquire(client(2), 11, &Arc::default()).err(), Some(Refused::Full(10)));
    assert!(taken.iter().all(|(owner, _)| !owner.is_evicted()));
}

#[test]
fn parts_are_released_independently_before_and_after_an_eviction() {
    let resource = resource(10);
    let owner = Arc::new(Evictable::default());
    let mut whole = resource.acquire(client(1), 10, &owner).unwrap();
    let part = whole.split(4);
    assert_eq!((whole.amount(), part.amount(), resource.reading().used), (6, 4, 10));
    drop(part);
    assert_eq!(resource.reading().used, 6);
    whole.grow(4).unwrap();
    let _other = resource.acquire(client(2), 1, &Arc::default()).unwrap();
    assert!(owner.is_evicted());
    let part = whole.split(3);
    assert_eq!(resource.lock().leaving, 10);
    drop(whole);
    assert_eq!(resource.lock().leaving, 3);
    drop(part);
    assert_eq!((resource.reading().used, resource.lock().leaving), (1, 0));
}

/// A connection holds its response in many parts. It is closed as a whole, so all parts are evicted together.
#[test]
fn owner_is_evicted_with_all_its_parts() {
    let resource = resource(80);
    let [idle, busy] = [1, 2].map(|active| Arc::new(Evictable::idle_since(active)));
    let mut whole = resource.acquire(client(1), 40, &idle).unwrap();
    let mut parts: Vec<_> = (0..4).map(|_| whole.split(10)).collect();
    let _other = resource.acquire(client(1), 40, &busy).unwrap();
    let newcomer = Arc::default();
    let _small = resource.acquire(client(2), 1, &newcomer).unwrap();
    assert!(idle.is_evicted());
    let ResourceReading { used, evicted, .. } = resource.reading();
    assert_eq!((used, evicted, resource.lock().leaving), (41, 1, 40));
    let _large = resource.acquire(client(2), 39, &newcomer).unwrap();
    assert!(!busy.is_evicted(), "enough was free");
    let refused = resource.acquire(client(1), 1, &idle).unwrap_err();
    assert_eq!(refused, Refused::Evicted(80), "an evicted owner acquires nothing");
    parts.pop();
    assert_eq!(resource.lock().leaving, 30);
    drop((whole, parts));
    assert_eq!((resource.reading().used, resource.lock().leaving), (80, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Acquire(u8, u64),
    Grow(usize, u64),
    Shrink(usize, u64),
    Drop(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let any = 0_usize..64;
    let step = prop_oneof![
        4 => (0_u8..5, 0_u64..40).prop_map(|(client, amount)| Step::Acquire(client, amount)),
        2 => (any.clone(), 0_u64..30).prop_map(|(at, amount)| Step::Grow(at, amount)),
        1 => (any.clone(), 0_u64..30).prop_map(|(at, amount)| Step::Shrink(at, amount)),
        2 => any.prop_map(Step::Drop),
    ];
    prop::collection::vec(step, 1..200)
}

/// The use of owners that were not evicted.
fn held_by(live: &[(u8, Arc<Evictable>, Held)], of: u8) -> u64 {
    let own = live.iter().filter(|(client, owner, _)| *client == of && !owner.is_evicted());
    own.map(|(.., held)| held.amount()).sum()
}

proptest! {
    /// The total is the sum of all parts and never exceeds the limit, and each refusal has the right reason. Owners are
    /// evicted only if another client used more than the requesting client would use, and they are never its own.
    #[test]
    fn sharing_rule_holds_after_any_steps(limit in 1_u64..120, steps in steps()) {
        let resource = resource(limit);
        let mut live: Vec<(u8, Arc<Evictable>, Held)> = Vec::new();
        for step in steps {
            let before: Vec<_> = (0..5).map(|of| held_by(&live, of)).collect();
            let used: u64 = before.iter().sum();
            let evicted_before = live.iter().filter(|(_, owner, _)| owner.is_evicted()).count();
            let (of, amount, result) = match step {
                Step::Acquire(of, amount) => {
                    let owner = Arc::new(Evictable::default());
                    let result = resource.acquire(client(of), amount, &owner);
                    (of, amount, result.map(|held| live.push((of, owner, held))))
                }
                Step::Grow(at, amount) if !live.is_empty() => {
                    let at = at % live.len();
                    let (of, owner, held) = &mut live[at];
                    if owner.is_evicted() {
                        prop_assert!(amount == 0 || held.grow(amount) == Err(Refused::Evicted(limit)));
                        continue;
                    }
                    (*of, amount, held.grow(amount))
                }
                Step::Shrink(at, amount) if !live.is_empty() => {
                    let at = at % live.len();
                    live[at].2.shrink(amount);
                    continue;
                }
                Step::Drop(at) if !live.is_empty() => {
                    live.swap_remove(at % live.len());
                    continue;
                }
                _ => continue,
            };
            let after: Vec<_> = (0..5).map(|of| held_by(&live, of)).collect();
            let own = before[usize::from(of)];
            let most = before.iter().enumerate().filter(|(at, _)| *at != usize::from(of));
            let most = *most.map(|(_, held)| held).max().expect("there are five");
            let evicted = live.iter().filter(|(_, owner, _)| owner.is_evicted()).count();
            prop_assert_eq!(resource.reading().used, after.iter().sum::<u64>());
            prop_assert!(resource.reading().used <= limit);
            match result {
                Ok(()) => prop_assert!(
                    used + amount <= limit / 2 || most == 0 || own <= most || amount == 0
                ),
                Err(Refused::Largest(_)) => {
                    prop_assert!(used + amount > limit / 2 && most > 0 && own > most);
                    prop_assert_eq!(&before, &after);
                }
                Err(Refused::Full(_)) => prop_assert!(used + amount > limit),
                Err(other) => prop_assert!(false, "{other:?}"),
            }
            if evicted > evicted_before {
                prop_assert!(most > own + amount, "{before:?} {of} {amount}");
                prop_assert_eq!(after[usize::from(of)] >= own, true, "its own are not evicted");
            }
        }
        drop(live);
        let state = resource.lock();
        prop_assert_eq!((state.used, state.leaving, state.clients.len()), (0, 0, 0));
    }
}
