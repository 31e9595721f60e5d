use std::path::PathBuf;

use crate::output::Format;

/// What the argument of a command may be, for completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    None,
    Command,
    Table,
    Switch,
    Format,
    Rows,
    File,
}

/// One command of the shell: help, parsing and completion all follow from [`COMMANDS`].
#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    /// Other names, among them psql's.
    pub(super) aliases: &'static [&'static str],
    pub(super) argument: Argument,
    /// The argument as help shows it; in brackets if it is optional.
    pub(super) usage: &'static str,
    pub(super) help: &'static str,
    read: fn(Option<&str>) -> Result<Action, String>,
}

/// An order of a command to the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// List the commands, or explain one.
    Help(Option<String>),
    /// List the tables whose name contains the text.
    Tables(Option<String>),
    /// List the columns of a table, or of all.
    Schema(Option<String>),
    /// Show how long statements take, or not; `None` toggles it.
    Timer(Option<bool>),
    /// Choose the format of answers; `None` shows the current one.
    Mode(Option<Format>),
    /// Choose the most rows that a table shows; `Some(None)` shows all, `None` tells it.
    MaxRows(Option<Option<usize>>),
    /// Run a file.
    Read(PathBuf),
    /// Show the memory in use.
    Memory,
    /// List what runs on the cluster.
    Jobs,
    /// Leave.
    Quit,
}

/// The commands, in the order in which help lists them.
pub(super) const COMMANDS: [Command; 10] = [
    Command {
        name: ".help",
        aliases: &["\\?", "\\h"],
        argument: Argument::Command,
        usage: "[command]",
        help: "list the commands, or explain one",
        read: |argument| Ok(Action::Help(argument.map(str::to_owned))),
    },
    Command {
        name: ".tables",
        aliases: &["\\dt", "\\d"],
        argument: Argument::None,
        usage: "[text]",
        help: "list the tables and views, or those whose name contains the text",
        read: |argument| Ok(Action::Tables(argument.map(str::to_owned))),
    },
    Command {
        name: ".schema",
        aliases: &["\\d+"],
        argument: Argument::Table,
        usage: "[table]",
        help: "list the columns of a table or file, or of all tables",
        read: |argument| Ok(Action::Schema(argument.map(str::to_owned))),
    },
    Command {
        name: ".timer",
        aliases: &["\\timing"],
        argument: Argument::Switch,
        usage: "[on|off]",
        help: "show the time that each statement takes, or not",
        read: |argument| match argument {
            None => Ok(Action::Timer(None)),
            Some("on") => Ok(Action::Timer(Some(true))),
            Some("off") => Ok(Action::Timer(Some(false))),
            Some(other) => Err(format!("'{other}' is neither on nor off")),
        },
    },
    Command {
        name: ".mode",
        aliases: &[],
        argument: Argument::Format,
        usage: "[table|csv|json|line]",
        help: "choose how answers are shown",
        read: |argument| match argument.map(str::parse::<Format>) {
            None => Ok(Action::Mode(None)),
            Some(Ok(format)) if format.is_text() => Ok(Action::Mode(Some(format))),
            Some(Ok(format)) => {
                Err(format!("{format} is no text: write a file with COPY (…) TO 'file.{format}'"))
            }
            Some(Err(error)) => Err(error.to_string()),
        },
    },
    Command {
        name: ".maxrows",
        aliases: &[],
        argument: Argument::Rows,
        usage: "[N|all]",
        help: "choose how many rows of a long table are shown",
        read: |argument| match argument {
            None => Ok(Action::MaxRows(None)),
            Some(text) => rows_max(text).map(|rows_max| Action::MaxRows(Some(rows_max))),
        },
    },
    Command {
        name: ".read",
        aliases: &["\\i"],
        argument: Argument::File,
        usage: "file",
        help: "run the statements and commands of a file",
        read: |argument| match argument {
            Some(path) => Ok(Action::Read(PathBuf::from(path))),
            None => Err("the name of a file is missing".to_owned()),
        },
    },
    Command {
        name: ".memory",
        aliases: &[],
        argument: Argument::None,
        usage: "",
        help: "show the memory limit and what is in use",
        read: |_| Ok(Action::Memory),
    },
    Command {
        name: ".jobs",
        aliases: &[],
        argument: Argument::None,
        usage: "",
        help: "list the jobs of the cluster that queries run on",
        read: |_| Ok(Action::Jobs),
    },
    Command {
        name: ".quit",
        aliases: &[".exit", "\\q"],
        argument: Argument::None,
        usage: "",
        help: "leave; so does Ctrl-D",
        read: |_| Ok(Action::Quit),
    },
];

/// The most rows that a table is to show: a number, or `all`.
///
/// # Errors
/// For another text, what is expected.
pub fn rows_max(text: &str) -> Result<Option<usize>, String> {
    match text.parse() {
        Ok(rows) => Ok(Some(rows)),
        Err(_) if text.eq_ignore_ascii_case("all") => Ok(None),
        Err(_) => Err("expected a number of rows, or all".to_owned()),
    }
}

/// Why a line is not a valid command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is no command of that name.
    #[error("there is no command '{name}'")]
    Unknown {
        /// The name as given.
        name: String,
        /// The command that was probably meant.
        near: Option<&'static str>,
    },
    /// The command does not take that argument.
    #[error("{name}: {reason}")]
    Argument {
        /// The command.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl CommandError {
    /// The words to type instead.
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown { near: Some(near), .. } => format!("did you mean {near}?"),
            Self::Unknown { near: None, .. } => ".help lists the commands".to_owned(),
            Self::Argument { name, .. } => match COMMANDS.iter().find(|command| command.name == *name) {
                Some(command) => format!("{} {}", command.name, command.usage).trim_end().to_owned(),
                None => ".help lists the commands".to_owned(),
            },
        }
    }
}

/// Whether an interactive line is a command rather than SQL: it begins with a dot or a backslash, or is `exit` or `quit`.
pub(super) fn is_command(line: &str) -> bool {
    let line = line.trim();
    line.starts_with(['.', '\\']) || is_farewell(line)
}

fn is_farewell(line: &str) -> bool {
    let word = line.trim_end_matches(';').trim_end();
    word.eq_ignore_ascii_case("exit") || word.eq_ignore_ascii_case("quit")
}

/// Parses a line as a command: a name (or an unambiguous prefix), and at most one argument, which may be quoted.
pub(super) fn parse(line: &str) -> Result<Action, CommandError> {
    let line = line.trim();
    if is_farewell(line) {
        return Ok(Action::Quit);
    }
    let line = line.trim_end_matches(';').trim_end();
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = Some(unquote(argument.trim())).filter(|argument| !argument.is_empty());
    // psql's `\d` lists tables, or the columns of the table that is named.
    let command = find(if name == "\\d" && argument.is_some() { ".schema" } else { name })?;
    if command.usage.is_empty() && argument.is_some() {
        return Err(CommandError::Argument { name: command.name, reason: "takes no argument".to_owned() });
    }
    (command.read)(argument).map_err(|reason| CommandError::Argument { name: command.name, reason })
}

/// The command with that name, alias or unambiguous prefix of a name.
pub(super) fn find(name: &str) -> Result<&'static Command, CommandError> {
    let lower = name.to_ascii_lowercase();
    if let Some(command) = COMMANDS.iter().find(|c| c.name == lower || c.aliases.contains(&lower.as_str())) {
        return Ok(command);
    }
    let mut starting = COMMANDS.iter().filter(|c| lower.len() > 1 && c.name.starts_with(&lower));
    if let (Some(command), None) = (starting.next(), starting.next()) {
        return Ok(command);
    }
    let near = COMMANDS
        .iter()
        .flat_map(|c| c.aliases.iter().map(|alias| (*alias, c.name)).chain([(c.name, c.name)]))
        .map(|(spelling, name)| (strsim::damerau_levenshtein(&lower, spelling), name))
        .filter(|(distance, _)| *distance <= 2.min(lower.len().saturating_sub(2)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name);
    Err(CommandError::Unknown { name: name.to_owned(), near })
}

/// What `.help` prints.
pub(super) fn help() -> String {
    let mut text = String::new();
    for command in &COMMANDS {
        let usage = format!("{} {}", command.name, command.usage);
        text.push_str(&format!("{usage:<24}{}\n", command.help));
    }
    text.push_str("\nSQL ends with a semicolon and may take several lines.\n");
    text.push_str("Tab completes, Ctrl-R searches the history, Ctrl-D leaves.\n");
    text.push_str("Ctrl-C ends the running statement, or drops the line.\n");
    text.push_str("Files need no table: SELECT * FROM 'data/*.parquet' LIMIT 10;\n");
    text
}

/// What `.help NAME` prints.
pub(super) fn help_for(command: &Command) -> String {
    let mut text = format!("{} {}\n  {}\n", command.name, command.usage, command.help).replace(" \n", "\n");
    if !command.aliases.is_empty() {
        text.push_str(&format!("  also: {}\n", command.aliases.join(" ")));
    }
    text
}

fn unquote(argument: &str) -> &str {
    for quote in ['\'', '"'] {
        if let Some(inner) = argument.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    argument
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_actions() {
        for (line, action) in [
            (".help", Action::Help(None)),
            (".help read", Action::Help(Some("read".into()))),
            (".tables", Action::Tables(None)),
            ("\\dt", Action::Tables(None)),
            ("\\d orders", Action::Schema(Some("orders".into()))),
            (".schema orders;", Action::Schema(Some("orders".into()))),
            (".schema 'a b.parquet'", Action::Schema(Some("a b.parquet".into()))),
            (".TIMER on", Action::Timer(Some(true))),
            (".ti", Action::Timer(None)),
            (".mode json", Action::Mode(Some(Format::Json))),
            (".mode line", Action::Mode(Some(Format::Line))),
            (".maxrows", Action::MaxRows(None)),
            (".maxrows 5", Action::MaxRows(Some(Some(5)))),
            (".maxrows ALL", Action::MaxRows(Some(None))),
            (".read \"my file.sql\"", Action::Read("my file.sql".into())),
            (".memory", Action::Memory),
            (".jobs", Action::Jobs),
            (".q", Action::Quit),
            (".exit", Action::Quit),
            ("\\q", Action::Quit),
            ("exit;", Action::Quit),
            (" QUIT ", Action::Quit),
        ] {
            assert!(is_command(line), "{line}");
            assert_eq!(parse(line), Ok(action), "{line}");
        }
        assert!(!is_command("select 1;") && !is_command("exit_code"));
    }

    #[test]
    fn mistakes_get_an_answer_that_helps() {
        for (line, message, hint) in [
            (".tabels", "there is no command '.tabels'", "did you mean .tables?"),
            (".exti", "there is no command '.exti'", "did you mean .quit?"),
            (".frobnicate", "there is no command '.frobnicate'", ".help lists the commands"),
            (".", "there is no command '.'", ".help lists the commands"),
            (".m json", "there is no command '.m'", ".help lists the commands"),
            (".timer maybe", ".timer: 'maybe' is neither on nor off", ".timer [on|off]"),
            (
                ".mode parquet",
                ".mode: parquet is no text: write a file with COPY (…) TO 'file.parquet'",
                ".mode [table|csv|json|line]",
            ),
            (".maxrows few", ".maxrows: expected a number of rows, or all", ".maxrows [N|all]"),
            (".read", ".read: the name of a file is missing", ".read file"),
            (".quit now", ".quit: takes no argument", ".quit"),
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!((error.to_string().as_str(), error.hint().as_str()), (message, hint), "{line}");
        }
    }

    #[test]
    fn help_lists_every_command() {
        for command in &COMMANDS {
            assert!(help().contains(command.name) && help_for(command).contains(command.help));
        }
    }
}
