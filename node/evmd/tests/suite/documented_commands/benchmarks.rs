//! Prepares documented commands that run or compare benchmarks.

use super::{
    blocks::repository,
    reduce,
    requests::{Reply, failure, in_repository},
};
use crate::development::PROGRAM;
use std::{fs, path::Path};

/// The profile with which this test's program was built. The dependencies of benchmarks are already built in it.
fn profile() -> &'static str {
    let folder = Path::new(PROGRAM).parent().unwrap().file_name().unwrap().to_str().unwrap();
    if folder == "debug" { "dev" } else { folder }
}

fn has_line(file: &str, line: &str) -> bool {
    let text = fs::read_to_string(repository().join(file)).unwrap();
    text.lines().any(|found| found == line)
}

fn benchmark_exists(bench: &str) -> bool {
    let text = fs::read_to_string(repository().join("benches/Cargo.toml")).unwrap();
    text.contains(&format!("[[bench]]\nname = \"{bench}\"\n"))
}

/// The name of the benchmark in the options of `cargo bench`, or what is wrong with them.
fn benchmark_name<'a>(options: &[&'a str]) -> Result<&'a str, String> {
    let (mut bench, mut words) = (None, options.iter());
    while let Some(word) = words.next() {
        match (*word, words.as_slice().first()) {
            ("--workspace", _) => {}
            ("-p", Some(&"benches")) => {
                words.next();
            }
            ("--profile", Some(name)) if has_line("Cargo.toml", &format!("[profile.{name}]")) => {
                words.next();
            }
            ("--bench", Some(name)) if benchmark_exists(name) => bench = words.next().copied(),
            _ => return Err(format!("`cargo bench` has no option {word} with this value")),
        }
    }
    bench.ok_or_else(|| "`cargo bench` without a name runs all benchmarks".to_owned())
}

/// What is wrong with the arguments of `cargo bench`.
pub(super) fn error(arguments: &[&str]) -> Option<String> {
    let own = arguments.iter().take_while(|word| **word != "--").count();
    benchmark_name(&arguments[..own]).err()
}

/// `cargo bench` with `options` before `--` and `settings` after it.
pub(super) fn bench(options: &[&str], settings: &[String], is_run: bool) -> Reply {
    let bench = match benchmark_name(options) {
        Ok(bench) => bench,
        Err(message) => return failure(&message),
    };
    if !is_run {
        return vec!["true".to_owned()];
    }
    let user = std::env::var("HOME").unwrap();
    // With `-p`, cargo would select other features and build the dependencies again.
    let script = "cd $REPOSITORY; HOME=$1; shift; exec cargo bench --quiet --workspace \"$@\"";
    let path = std::env::var("PATH").unwrap();
    let head = ["env", &format!("PATH={path}"), "bash", "-c", script, "bash", &user];
    let own = ["--profile", profile(), "--bench", bench, "--"];
    let settings = match bench {
        "pipeline" => reduce::pipeline(settings),
        // Criterion runs each benchmark once.
        _ => settings.iter().cloned().chain(["--test".to_owned()]).collect(),
    };
    head.iter().chain(&own).map(|word| (*word).to_owned()).chain(settings).collect()
}

/// `benches/compare`. With two commits, it would build both in the profile `release`, which takes hours. The tests
/// name one commit twice, which the script refuses after it has read all options.
pub(super) fn compare(arguments: Vec<String>) -> Reply {
    let bench = arguments.iter().skip_while(|word| *word != "--bench").nth(1);
    if !bench.is_some_and(|bench| benchmark_exists(bench)) {
        return failure("benches/compare names a benchmark that does not exist");
    }
    let script = "if \"$@\" 2>refusal; then exit 1; fi; grep -q 'both are' refusal || { cat refusal; exit 1; }";
    let head = ["bash", "-c", script, "bash"].map(str::to_owned);
    head.into_iter().chain([in_repository("benches/compare")]).chain(arguments).collect()
}
