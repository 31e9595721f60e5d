//! The line editor: rustyline with the shell's completion, highlighting and validation.

use std::borrow::Cow;

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::config::Configurer;
use rustyline::highlight::{CmdKind, Highlighter, MatchingBracketHighlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use super::command::is_command;
use super::completion::{Offer, offer};
use super::history;
use super::names::Names;
use super::statement::{Quotes, Splitter};

/// The editor of the shell.
pub(super) type LineEditor = Editor<Assistant, FileHistory>;

/// Completes, highlights and validates what the user types.
#[derive(Default)]
pub(super) struct Assistant {
    pub(super) names: Names,
    quotes: Quotes,
    brackets: MatchingBracketHighlighter,
    paths: FilenameCompleter,
}

/// An editor whose history has one entry per input, however many lines that has.
pub(super) fn line_editor(quotes: Quotes) -> rustyline::Result<LineEditor> {
    let config = Config::builder()
        .max_history_size(history::ENTRIES_MAX)?
        .history_ignore_space(true)
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .auto_add_history(false)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Assistant { quotes, ..Assistant::default() }));
    // A pasted script arrives as one text, not as Enter after Enter.
    editor.enable_bracketed_paste(true);
    Ok(editor)
}

/// Whether Enter should submit `input` instead of beginning another line of it.
fn is_complete(input: &str, quotes: Quotes) -> bool {
    if input.trim().is_empty() || is_command(input) {
        return true;
    }
    let mut splitter = Splitter::new(quotes);
    // The newline ends what could still become a comment or a doubled quote. An error is shown when the input runs.
    splitter.push(input).and_then(|()| splitter.push("\n")).is_err() || splitter.is_between_statements()
}

impl Helper for Assistant {}

impl Hinter for Assistant {
    type Hint = String;
}

impl Validator for Assistant {
    fn validate(&self, ctx: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        if is_complete(ctx.input(), self.quotes) {
            Ok(ValidationResult::Valid(None))
        } else {
            Ok(ValidationResult::Incomplete)
        }
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, pos: usize) -> Cow<'l, str> {
        self.brackets.highlight(line, pos)
    }

    fn highlight_char(&self, line: &str, pos: usize, kind: CmdKind) -> bool {
        self.brackets.highlight_char(line, pos, kind)
    }
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        match offer(&self.names, line, pos, self.quotes) {
            Offer::Words { start, words } => {
                let pairs =
                    words.into_iter().map(|word| Pair { display: word.clone(), replacement: word }).collect();
                Ok((start, pairs))
            }
            Offer::Path { start } => {
                // The library looks for a quote; with one it does not escape blanks as a shell would.
                let quoted = format!("'{}", &line[start..pos]);
                let (found, pairs) = self.paths.complete_path(&quoted, quoted.len())?;
                Ok((start + found.saturating_sub(1), pairs))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustyline::history::DefaultHistory;

    #[test]
    fn enter_hands_over_what_is_complete() {
        for (input, complete) in [
            ("", true),
            ("  ", true),
            (".tables", true),
            ("exit", true),
            ("select 1", false),
            ("select 1;", true),
            ("select 1; -- done", true),
            ("select 1; select 2", false),
            ("select ';", false),
            ("select (1;", true),
            ("/* comment", false),
            ("-- comment", true),
            ("select\n.5;", true),
        ] {
            assert_eq!(is_complete(input, Quotes::Own), complete, "{input:?}");
        }
    }

    #[test]
    fn paths_are_completed_inside_quotes() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("part files")).unwrap();
        std::fs::write(folder.path().join("part files/orders.parquet"), "").unwrap();
        let history = DefaultHistory::new();
        let context = Context::new(&history);
        let assistant = Assistant::default();
        let complete = |typed: &str| {
            let line = format!("select * from '{}/{typed}", folder.path().display());
            let (start, pairs) = assistant.complete(&line, line.len(), &context).unwrap();
            pairs
                .into_iter()
                .map(|pair| format!("{}{}", &line[..start], pair.replacement))
                .collect::<Vec<_>>()
        };
        let base = format!("select * from '{}", folder.path().display());
        assert_eq!(complete("pa"), [format!("{base}/part files/")]);
        assert_eq!(complete("part files/or"), [format!("{base}/part files/orders.parquet")]);
        assert_eq!(complete("none"), Vec::<String>::new());
    }
}
