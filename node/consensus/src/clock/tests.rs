use super::*;
use crate::{Demand, Engine, Mining, MiningControl, Solo};
use chain::Rules;
use std::{sync::Mutex, time::UNIX_EPOCH};

const MAX_STEP: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

/// Clocks that a test sets: wall time in milliseconds since 1970, and monotonic milliseconds.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<(i64, i64)>>);

impl Fake {
    /// Advances both clocks.
    fn pass(&self, time: Duration) {
        let ms = i64::try_from(time.as_millis()).unwrap();
        let mut clocks = self.0.lock().unwrap();
        *clocks = (clocks.0 + ms, clocks.1 + ms);
    }

    /// Sets the wall clock forward by `ms`.
    fn step(&self, ms: i64) {
        self.0.lock().unwrap().0 += ms;
    }
}

impl TimeSource for Fake {
    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(u64::try_from(self.0.lock().unwrap().0).unwrap())
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.lock().unwrap().1).unwrap())
    }
}

/// A clock that shows 100,000 seconds since 1970.
fn clock() -> (Fake, Clock, ClockStatus) {
    let (fake, status) = (Fake::default(), ClockStatus::default());
    fake.step(100_000_000);
    let clock = Clock::new(Box::new(fake.clone()), MAX_STEP, status.clone());
    (fake, clock, status)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn steps_up_to_the_limit_are_followed_and_larger_ones_are_not() {
    for sign in [1, -1] {
        for (ms, followed) in [(29_999, true), (30_000, true), (30_001, false), (3_600_000, false)]
        {
            let (fake, mut clock, status) = clock();
            fake.pass(SECOND);
            fake.step(sign * ms);
            let unchanged = UNIX_EPOCH + Duration::from_secs(100_001);
            let expected = if followed { fake.wall() } else { unchanged };
            assert_eq!(clock.now(), expected, "a step of {} ms", sign * ms);
            assert_eq!(status.step_seconds() == 0, followed);
            assert_eq!(status.step_seconds().signum(), if followed { 0 } else { sign });
        }
    }
}

#[test]
fn after_a_step_time_continues_until_the_wall_clock_agrees() {
    let (fake, mut clock, status) = clock();
    fake.step(3_600_000);
    for second in 0..100 {
        assert_eq!(seconds(clock.now()), 100_000 + second);
        assert_eq!(status.step_seconds(), 3601);
        fake.pass(SECOND);
    }
    // The wall clock is corrected, except for ten seconds.
    fake.step(-3_590_000);
    assert_eq!(clock.now(), fake.wall());
    assert_eq!(seconds(clock.now()), 100_110);
    assert_eq!(status.step_seconds(), 0);
    // The next step is measured from the corrected clock.
    fake.step(-30_000);
    assert_eq!(clock.now(), fake.wall());
    fake.step(-30_001);
    assert_eq!(seconds(clock.now()), 100_080);
    assert_eq!(status.step_seconds(), -31);
}

#[test]
fn slow_drift_is_not_a_step() {
    let (fake, mut clock, status) = clock();
    for _ in 0..1000 {
        fake.pass(SECOND);
        fake.step(500);
        assert_eq!(clock.now(), fake.wall());
    }
    assert_eq!(status.step_seconds(), 0);
}

#[test]
fn suspension_of_the_machine_is_not_a_step() {
    // The monotonic clock counts the suspension, so it advances as much as the wall clock.
    let (fake, mut clock, status) = clock();
    fake.pass(Duration::from_secs(86_400));
    assert_eq!(seconds(clock.now()), 186_400);
    assert_eq!(status.step_seconds(), 0);
}

/// In an earlier version, the clock was set forward for a minute, and later blocks kept those timestamps.
#[test]
fn blocks_have_no_timestamps_of_a_wall_clock_that_was_set_wrong_for_a_minute() {
    for rules in [Rules::Native, Rules::Ethereum] {
        let (fake, mut clock, _) = clock();
        let mut solo =
            Solo::new(MiningControl::new(Mining::Every(SECOND)), true, rules, clock.now());
        let mut parent = 99_999;
        for second in 1..=180 {
            match second {
                60 => fake.step(7_200_000),
                120 => fake.step(-7_200_000),
                _ => {}
            }
            fake.pass(SECOND);
            let slot = solo.slot(clock.now(), parent, Demand::Nothing).unwrap();
            assert_eq!(slot.timestamp, 100_000 + second, "{rules:?}");
            parent = slot.timestamp;
        }
    }
}

#[test]
fn clocks_of_this_machine_are_plausible() {
    let source = SystemTimeSource;
    let (wall, monotonic) = (source.wall(), source.monotonic());
    assert!(source.monotonic() >= monotonic && monotonic > Duration::ZERO);
    assert!(seconds(wall) > 1_700_000_000);
}
