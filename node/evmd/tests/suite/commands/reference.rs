//! Tests that `docs/cli.md` agrees with the program's commands. `EVMD_WRITE_DOCS=1` writes the file.

use clap::{Arg, ArgAction, Command};
use std::{fmt::Write, path::Path};

fn document() -> String {
    let mut out = String::from(
        "# Commands\n\n\
         Made from the program by `EVMD_WRITE_DOCS=1 cargo test -p evmd --test suite commands`; a test holds \
         it to what the program says. Sessions with their output are in \
         [`node/evmd/tests/transcripts`](../node/evmd/tests/transcripts).\n\n\
         The exit code is 0, 1 for a failure, with a reason in one line, and 2 for wrong usage.\n",
    );
    let mut root = evmd::cli::command();
    root.build();
    describe(&root, "evmd", &mut out);
    out
}

/// Writes a section for a command, followed by those of its subcommands.
fn describe(command: &Command, name: &str, out: &mut String) {
    let parts: Vec<_> =
        command.get_subcommands().filter(|part| part.get_name() != "help").collect();
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    if parts.is_empty() {
        write!(out, "\n## {name}\n\n{about}\n").unwrap();
        table(command, out);
        if let Some(more) = command.get_after_help() {
            write!(out, "\n```text\n{more}\n```\n").unwrap();
        }
    }
    for part in parts {
        describe(part, &format!("{name} {}", part.get_name()), out);
    }
}

fn table(command: &Command, out: &mut String) {
    let shown =
        |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let args: Vec<_> = command.get_arguments().filter(shown).collect();
    if args.is_empty() {
        return;
    }
    out.push_str("\n| Argument | Meaning |\n|---|---|\n");
    for arg in args {
        writeln!(out, "| `{}` | {} |", spelling(arg), meaning(arg)).unwrap();
    }
}

fn spelling(arg: &Arg) -> String {
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let names = arg.get_value_names().unwrap_or_default();
    let value = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let flags =
        [arg.get_short().map(|c| format!("-{c}")), arg.get_long().map(|l| format!("--{l}"))];
    let flags: Vec<_> = flags.into_iter().flatten().collect();
    match (flags.is_empty(), takes_value) {
        (true, _) if arg.is_required_set() => format!("<{value}>"),
        (true, _) => format!("[{value}]"),
        (false, true) => format!("{} <{value}>", flags.join(", ")),
        (false, false) => flags.join(", "),
    }
}

fn meaning(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|");
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let values: Vec<_> = arg
        .get_possible_values()
        .iter()
        .filter(|v| !v.is_hide_set())
        .map(|v| v.get_name().to_owned())
        .collect();
    if takes_value && !values.is_empty() {
        write!(text, "; one of `{}`", values.join("`, `")).unwrap();
    }
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults = defaults.collect::<Vec<_>>().join(" ");
    if takes_value && !defaults.is_empty() {
        write!(text, "; default `{defaults}`").unwrap();
    }
    if let Some(variable) = arg.get_env() {
        write!(text, "; environment `{}`", variable.to_string_lossy()).unwrap();
    }
    text
}

#[test]
fn reference_agrees_with_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("EVMD_WRITE_DOCS").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, document(), "run with EVMD_WRITE_DOCS=1 to write {}", path.display());
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let mut evmd = std::process::Command::new(env!("CARGO_BIN_EXE_evmd"));
        let output = evmd.args(["completion", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && script.contains("unsafe-export-eth-key"), "{shell}");
    }
}
