//! Checks commands between backticks in the text of the documents. They are fragments, so they are not run, but
//! their subcommands and options must exist.

use super::{benchmarks, blocks::documents, requests::built};
use std::{collections::BTreeMap, process::Command};

/// The output of `--help` of commands, or `None` if the command does not exist.
#[derive(Default)]
struct Help(BTreeMap<Vec<String>, Option<String>>);

impl Help {
    fn of(&mut self, command: &[String]) -> Option<String> {
        let help = self.0.entry(command.to_vec()).or_insert_with(|| {
            let mut program = Command::new(built(&command[0]));
            let output = program.args(&command[1..]).arg("--help").output().unwrap();
            output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
        });
        help.clone()
    }

    /// What is wrong with a command of `evmd` or `loadtest`. `a|b` are two subcommands.
    fn error(&mut self, words: &[&str]) -> Option<String> {
        let mut command = vec![words[0].to_owned()];
        for word in &words[1..] {
            let help = self.of(&command)?;
            if word.starts_with('-') || !help.contains("Commands:") || !is_name(word) {
                break;
            }
            let names = word.split('|').map(|name| [&command[..], &[name.to_owned()]].concat());
            let names: Vec<_> = names.collect();
            if let Some(unknown) = names.iter().find(|name| self.of(name).is_none()) {
                return Some(format!("there is no command `{}`", unknown.join(" ")));
            }
            command.clone_from(&names[0]);
        }
        let help = self.of(&command)?;
        let options = words.iter().map(|word| word.trim_matches(['[', ']']));
        let mut options = options.filter(|word| word.starts_with("--"));
        let unknown = options.find(|option| !has_option(&help, option))?;
        Some(format!("`{}` has no option {unknown}", command.join(" ")))
    }
}

fn is_name(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-|".contains(c))
}

fn has_option(help: &str, option: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || "-.".contains(c));
    help.match_indices(option).any(|(at, _)| is_end(&help[at + option.len()..]))
}

/// The texts between single backticks outside fenced blocks, each with single spaces.
fn spans(text: &str) -> Vec<String> {
    let mut is_block = false;
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_block ^= is_fence;
        !is_block && !is_fence
    });
    let text = lines.collect::<Vec<_>>().join(" ").replace("\\|", "|");
    let spans = text.split('`').skip(1).step_by(2);
    spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn commands_in_the_text_have_existing_subcommands_and_options() {
    let (mut help, mut wrong, mut count) = (Help::default(), Vec::new(), 0);
    for (file, text) in documents() {
        for span in spans(&text) {
            let words: Vec<&str> = span.split(' ').collect();
            let error = match words[..] {
                ["evmd" | "loadtest", _, ..] => help.error(&words),
                ["cargo", "bench", _, ..] => benchmarks::error(&words[2..]),
                _ => continue,
            };
            count += 1;
            wrong.extend(error.map(|error| format!("{file}: `{span}`: {error}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 50, "only {count} commands were found");
}

#[test]
fn unknown_subcommands_and_options_are_found() {
    let mut help = Help::default();
    let mut error = |line: &str| help.error(&line.split(' ').collect::<Vec<_>>());
    assert_eq!(error("evmd rules show|cancel -o json"), None);
    assert_eq!(error("evmd start [--block-time 1s] [--json-rpc.address ...]"), None);
    let message = error("evmd rules show|adapt").unwrap();
    assert_eq!(message, "there is no command `evmd rules adapt`");
    let message = error("loadtest reads --eac").unwrap();
    assert_eq!(message, "`loadtest reads` has no option --eac");
    assert_eq!(spans("a `b\nc` d\n```\n`e`\n```\n`f`"), ["b c", "f"]);
}
