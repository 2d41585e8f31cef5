//! Describes where and how a measurement was made, so that its figures can be compared with those of other reports.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

/// Seconds in a day.
const DAY_SECONDS: u64 = 86_400;

/// Returns the date, the machine, and the command line and version of this client, by name. The machine is the one that
/// this client runs on.
pub(crate) fn environment() -> Vec<(&'static str, String)> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let command = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    vec![
        ("date", utc(since.as_secs())),
        ("machine", machine()),
        ("command", command.collect::<Vec<_>>().join(" ")),
        ("loadtest", env!("CARGO_PKG_VERSION").to_owned()),
    ]
}

/// Describes the processor, the number of cores that this process may use, and the kernel.
fn machine() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.and_then(|rest| rest.split_once(": ")).map(|(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{}, {cores} cores, {} {}",
        model.unwrap_or(std::env::consts::ARCH),
        std::env::consts::OS,
        kernel.trim()
    )
}

/// Formats a Unix time in seconds as a UTC date and time.
fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / DAY_SECONDS, seconds % DAY_SECONDS);
    // Years begin in March, so that the leap day is the last day; 719,468 days lie between 0000-03-01 and 1970-01-01.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn seconds_are_shown_as_a_date() {
        for (seconds, date) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_199, "2024-02-29 23:59 UTC"),
            (1_709_251_200, "2024-03-01 00:00 UTC"),
            (4_102_444_799, "2099-12-31 23:59 UTC"),
        ] {
            assert_eq!(utc(seconds), date);
        }
    }
}
