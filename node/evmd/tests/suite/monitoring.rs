//! Tests that the files in `node/packaging/monitoring` agree with the program and with the documents: they use metrics
//! that exist, and each alert has a paragraph and tests. `promtool` and the script `try` in that folder check the rest.

use observe::{Kind, METRICS};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The suffixes of a histogram's series.
const HISTOGRAM_PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap()
}

fn monitoring(file: &str) -> String {
    read(&format!("node/packaging/monitoring/{file}"))
}

/// Returns the names of metrics in a text of queries.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("evmd_") || word.starts_with("process_")).collect()
}

/// Returns the names in a text that match no series of the node.
fn unknown(text: &str) -> Vec<&str> {
    let series: BTreeSet<String> = METRICS
        .iter()
        .flat_map(|metric| {
            let parts: &[_] = if metric.kind == Kind::Histogram { &HISTOGRAM_PARTS } else { &[""] };
            parts.iter().map(|part| format!("{}{part}", metric.name))
        })
        .collect();
    names(text).into_iter().filter(|name| !series.contains(*name)).collect()
}

/// Returns the rest of each line that begins with `start`, ignoring indentation.
fn lines<'t>(text: &'t str, start: &str) -> Vec<&'t str> {
    text.lines().filter_map(|line| line.trim().strip_prefix(start)).map(str::trim).collect()
}

#[test]
fn alerts_and_dashboard_use_existing_metrics() {
    for file in ["alerts.yml", "alerts_test.yml", "dashboard.json"] {
        let text = monitoring(file);
        assert!(names(&text).len() > 10, "{file} has too few metrics");
        assert_eq!(unknown(&text), Vec::<&str>::new(), "{file}");
    }
}

#[test]
fn renamed_metrics_and_histograms_without_a_part_are_found() {
    assert_eq!(unknown("rate(evmd_head_block_number[5m]) + process_open_fds"), Vec::<&str>::new());
    assert_eq!(unknown("{\"expr\": \"evmd_head_number{a=\\\"b\\\"}\"}"), ["evmd_head_number"]);
    assert_eq!(unknown("evmd_rpc_call_duration_seconds_bucket"), Vec::<&str>::new());
    assert_eq!(unknown("evmd_rpc_call_duration_seconds"), ["evmd_rpc_call_duration_seconds"]);
}

/// A test of an alert without `exp_alerts` expects the alert not to fire.
#[test]
fn each_alert_has_a_paragraph_and_a_firing_and_a_quiet_test() {
    let (rules, tests, document) =
        (monitoring("alerts.yml"), monitoring("alerts_test.yml"), read("docs/monitoring.md"));
    let alerts = lines(&rules, "- alert:");
    assert_eq!(
        lines(&document, "### "),
        alerts,
        "docs/monitoring.md has one heading for each alert"
    );
    let rules: Vec<_> = rules.split("- alert:").skip(1).collect();
    for (alert, rule) in alerts.iter().zip(rules) {
        for key in ["for:", "severity:", "summary:", "description:"] {
            assert_eq!(lines(rule, key).len(), 1, "{alert} needs one {key}");
        }
        let link = format!("/docs/monitoring.md#{}", alert.to_lowercase());
        assert!(lines(rule, "runbook_url:")[0].ends_with(&link), "{alert} links to {link}");
        let cases = tests
            .split("- alertname:")
            .skip(1)
            .filter(|case| case.split_whitespace().next() == Some(alert));
        let (firing, quiet): (Vec<_>, Vec<_>) =
            cases.partition(|case| !lines(case, "exp_alerts:").is_empty());
        assert!(!firing.is_empty() && !quiet.is_empty(), "{alert} needs a firing and a quiet test");
    }
}
