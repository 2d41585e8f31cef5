//! Replays recorded sessions. A line of a recording is one of:
//!
//! - `$ evmd ...`: a command. Words are split as by a shell, with quotes. `> FILE` at the end writes standard
//!   output to a file. `&` at the end starts a node, which is stopped after it has printed its banner. Other
//!   shell syntax is not supported;
//! - `~ evmd ...`: the same, but the command is repeated until its output is the recorded one. It is for output
//!   that depends on a block being produced;
//! - `< text`: a line of standard input;
//! - `! text`: a line of standard error;
//! - `? number`: the exit code, if it is not 0;
//! - `# text` and empty lines between commands: comments;
//! - anything else: a line of standard output.
//!
//! `[..]` in an expected line matches any text, because hashes and times of blocks differ between runs. A last line
//! `[...]` matches any number of lines. `FOLDER` stands for the working directory of the session. With
//! `EVMD_WRITE_DOCS=1`, the actual output is written to the recording if it differs.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};
use testkit::MAX_WAIT;

/// Matches any text within a line.
const ANY: &str = "[..]";

/// Matches any lines at the end of the output.
const ANY_LINES: &str = "[...]";

/// Interval at which a command that begins with `~` is repeated.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The beginning of the last line of a node's banner.
const BANNER_END: &str = "metrics ";

/// The environment in which commands run.
pub(crate) struct Session<'a> {
    /// Working directory.
    pub(crate) folder: &'a Path,
    /// Environment variables. Those of the test process are removed.
    pub(crate) variables: Vec<(&'static str, String)>,
}

/// A command of a recording, with the comments before it.
#[derive(Default)]
struct Step {
    before: Vec<String>,
    command: String,
    /// Whether the command is repeated until its output is the recorded one.
    waits: bool,
    input: Vec<String>,
    output: Vec<String>,
}

fn read(text: &str) -> (Vec<Step>, Vec<String>) {
    let (mut steps, mut before) = (Vec::<Step>::new(), Vec::new());
    for line in text.lines() {
        match (line.split_once(' '), steps.last_mut()) {
            (Some((mark @ ("$" | "~"), command)), _) => {
                let (before, command) = (std::mem::take(&mut before), command.to_owned());
                steps.push(Step { before, command, waits: mark == "~", ..Step::default() });
            }
            (Some(("#", _)), _) => before.push(line.to_owned()),
            _ if line.is_empty() => before.push(String::new()),
            (Some(("<", input)), Some(step)) => step.input.push(input.to_owned()),
            (_, Some(step)) => step.output.push(line.to_owned()),
            (_, None) => panic!("a line before the first command: {line}"),
        }
    }
    (steps, before)
}

/// Splits a command line into words.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        match c {
            '\'' | '"' if quote.is_none() => quote = Some(c),
            c if quote == Some(c) => quote = None,
            ' ' if quote.is_none() => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

impl Session<'_> {
    /// Replays the recording with this name.
    pub(crate) fn replay(&self, name: &str) {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(name);
        let (steps, end) = read(&fs::read_to_string(&path).unwrap());
        let mut written = String::new();
        let mut errors = Vec::new();
        for step in steps {
            let actual = self.final_output(&step);
            let fits = all_fit(&step.output, &actual);
            if !fits {
                let (recorded, actual) = (step.output.join("\n"), actual.join("\n"));
                let command = &step.command;
                errors.push(format!("$ {command}\n-- recorded\n{recorded}\n-- actual\n{actual}"));
            }
            let input = step.input.iter().map(|line| format!("< {line}"));
            let kept = if fits { &step.output } else { &actual };
            let lines = step.before.iter().cloned();
            let mark = if step.waits { '~' } else { '$' };
            let lines = lines.chain([format!("{mark} {}", step.command)]).chain(input);
            lines.chain(kept.iter().cloned()).for_each(|line| written += &format!("{line}\n"));
        }
        end.iter().for_each(|line| written += &format!("{line}\n"));
        if std::env::var_os("EVMD_WRITE_DOCS").is_some() {
            fs::write(&path, written).unwrap();
        } else {
            assert!(errors.is_empty(), "{}\n{}", path.display(), errors.join("\n\n"));
        }
    }

    /// Returns the output of a command. If the command begins with `~`, this is the output of its last repetition.
    fn final_output(&self, step: &Step) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let actual = self.run(step);
            let done = if step.output.is_empty() {
                // There is no recorded output yet.
                actual.iter().all(|line| !line.starts_with("? "))
            } else {
                all_fit(&step.output, &actual)
            };
            if done || !step.waits || begun.elapsed() > MAX_WAIT {
                return actual;
            }
            std::thread::park_timeout(RETRY_INTERVAL);
        }
    }

    /// Runs a command and returns its output in the format of a recording.
    fn run(&self, step: &Step) -> Vec<String> {
        let mut words = words(&step.command);
        assert_eq!(words.remove(0), "evmd", "{}", step.command);
        let node = words.pop_if(|last| last == "&").is_some();
        let file = match words.as_slice() {
            [.., redirect, file] if redirect == ">" => Some(self.folder.join(file)),
            _ => None,
        };
        if file.is_some() {
            words.truncate(words.len() - 2);
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_evmd"))
            .args(words)
            .current_dir(self.folder)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input: String = step.input.iter().map(|line| format!("{line}\n")).collect();
        // A command that reads no input may have ended before the input is written.
        drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
        let output = if node { stop_node(child) } else { child.wait_with_output().unwrap() };
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (mut out, err) = (text(output.stdout), text(output.stderr));
        if let Some(file) = file {
            fs::write(file, std::mem::take(&mut out)).unwrap();
        }
        let mut lines: Vec<_> = out.lines().map(str::to_owned).collect();
        let code = output.status.code().unwrap();
        // The log of a node that ends without an error is not recorded.
        let err = if node && code == 0 { "" } else { &err };
        lines.extend(err.lines().map(|line| format!("! {line}").trim_end().to_owned()));
        lines.extend((code != 0).then(|| format!("? {code}")));
        let folder = self.folder.to_str().unwrap();
        lines.iter_mut().for_each(|line| *line = line.replace(folder, "FOLDER"));
        // Empty lines separate comments and are not recorded as output.
        lines.retain(|line| !line.is_empty());
        lines
    }
}

/// Waits for a node's banner, stops the node, and waits until it has exited.
fn stop_node(mut child: Child) -> Output {
    let mut out = Vec::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with(BANNER_END) {
        line.clear();
        if lines.read_line(&mut line).unwrap() == 0 {
            break;
        }
        out.extend_from_slice(line.as_bytes());
    }
    let pid = rustix::process::Pid::from_child(&child);
    // A node that failed to start has already ended.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    Output { stdout: out, ..child.wait_with_output().unwrap() }
}

/// Returns whether the lines match the recording.
pub(crate) fn all_fit(expected: &[String], actual: &[String]) -> bool {
    let (expected, open) = match expected.split_last() {
        Some((last, before)) if last == ANY_LINES => (before, true),
        _ => (expected, false),
    };
    let enough = if open { actual.len() >= expected.len() } else { actual.len() == expected.len() };
    enough && expected.iter().zip(actual).all(|(expected, actual)| fits(expected, actual))
}

/// Returns whether a line matches the recording.
pub(crate) fn fits(expected: &str, line: &str) -> bool {
    let mut parts = expected.split(ANY);
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        let found = if parts.peek().is_none() {
            rest.ends_with(part).then(|| rest.len() - part.len())
        } else {
            rest.find(part)
        };
        let Some(at) = found else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[test]
fn placeholders_in_recordings_match_any_text() {
    for (expected, actual, fit) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a[..]", "ab", true),
        ("a[..]c", "abc", true),
        ("a[..]c", "ab", false),
        ("[..]b[..]", "abc", true),
        ("[..]b[..]b", "ab", false),
    ] {
        assert_eq!(fits(expected, actual), fit, "{expected} {actual}");
    }
    assert_eq!(words("evmd  a 'b \"c' \"d'\""), ["evmd", "a", "b \"c", "d'"]);
}
