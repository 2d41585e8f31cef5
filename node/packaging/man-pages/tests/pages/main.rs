//! Tests that each command has a page with its options.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use clap::Command;
use std::{collections::BTreeSet, fs, path::Path};

/// Returns `command` and the commands below it, with the names of their pages.
fn commands(command: &Command, name: &str) -> Vec<(String, Command)> {
    let parts = command.get_subcommands().filter(|part| part.get_name() != "help");
    let parts = parts.flat_map(|part| commands(part, &format!("{name}-{}", part.get_name())));
    std::iter::once((name.to_owned(), command.clone())).chain(parts).collect()
}

/// Returns the text of a page as a reader sees it: roff escapes a hyphen.
fn page(dir: &Path, name: &str) -> String {
    let page = fs::read_to_string(dir.join(format!("{name}.1")));
    page.unwrap_or_else(|error| panic!("{name}.1: {error}")).replace("\\-", "-")
}

fn write_pages() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_man-pages"));
    assert!(program.arg(dir.path()).status().unwrap().success());
    dir
}

#[test]
fn each_command_has_a_page_with_its_options() {
    let dir = write_pages();
    let mut root = evmd::cli::command();
    root.build();
    let commands = commands(&root, "evmd");
    for (name, command) in &commands {
        let page = page(dir.path(), name);
        assert!(page.contains(&format!("\n{name} - ")), "{name}.1 does not begin with its name");
        for option in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let long = option.get_long().map(|long| format!("--{long}"));
            let variable = option.get_env().map(|variable| variable.to_string_lossy().into_owned());
            for word in long.into_iter().chain(variable) {
                assert!(page.contains(&word), "{name}.1 does not describe {word}");
            }
        }
    }
    let files = fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name());
    let files: BTreeSet<_> = files.map(|file| file.into_string().unwrap()).collect();
    let expected: BTreeSet<_> = commands.iter().map(|(name, _)| format!("{name}.1")).collect();
    assert_eq!(files, expected);
}

#[test]
fn pages_are_the_same_each_time() {
    let (first, second) = (write_pages(), write_pages());
    assert_eq!(page(first.path(), "evmd-start"), page(second.path(), "evmd-start"));
}

#[test]
fn missing_folder_is_an_error() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_man-pages")).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("usage: man-pages DIR"));
}
