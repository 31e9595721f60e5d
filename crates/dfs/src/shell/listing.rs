use std::cmp::Reverse;

use yeoul_base::visible_name;

use super::Output;
use crate::client::{FileSystem, Status};
use crate::display::{local_minute, size};
use crate::error::Result;

/// What the entries of a directory are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    /// The bytes of their names.
    #[default]
    Name,
    /// Their time, the newest first.
    Time,
    /// Their length, the largest first.
    Size,
}

/// Flags of `-ls`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListOptions {
    /// `-C`: paths and nothing else.
    pub paths_only: bool,
    /// `-d`: a directory is shown itself, not its entries.
    pub directories_themselves: bool,
    /// `-h`: sizes for people.
    pub human: bool,
    /// `-q`: a question mark for each character that cannot be printed.
    pub hide_unprintable: bool,
    /// `-R`: all that is below, too.
    pub recursive: bool,
    /// `-t`, `-S`.
    pub sort_by: SortBy,
    /// `-r`: the other way round.
    pub reversed: bool,
    /// `-u`: the time of the last read instead of that of the last change.
    pub by_access: bool,
    /// `-e`: the erasure coding policy, too.
    pub policies: bool,
}

/// Shows files, and directories with their entries.
///
/// # Errors
/// The output takes no more.
pub async fn list(
    files: &FileSystem,
    paths: &[String],
    how: ListOptions,
    output: &mut Output<'_>,
) -> Result<()> {
    for path in paths {
        let listed = list_one(files, path, how, output).await;
        output.go_on(listed)?;
    }
    Ok(())
}

async fn list_one(files: &FileSystem, path: &str, how: ListOptions, output: &mut Output<'_>) -> Result<()> {
    let (directories, others): (Vec<Status>, Vec<Status>) = files
        .expand(&files.path(path)?)
        .await?
        .into_iter()
        .partition(|status| status.is_directory() && !how.directories_themselves);
    show(others, how, false, output)?;
    for directory in directories {
        if how.recursive {
            list_below(files, &directory.path, how, output).await?;
        } else {
            show(files.list(&directory.path).await?, how, true, output)?;
        }
    }
    Ok(())
}

/// Shows all that is below a directory, the entries of each directory right after it.
async fn list_below(files: &FileSystem, path: &str, how: ListOptions, output: &mut Output<'_>) -> Result<()> {
    let mut pending = sorted(files.list(path).await?, how);
    pending.reverse();
    while let Some(status) = pending.pop() {
        let (path, is_directory) = (status.path.clone(), status.is_directory());
        show(vec![status], how, false, output)?;
        if is_directory {
            let below = match files.list(&path).await {
                Ok(below) => below,
                Err(error) => {
                    output.go_on(Err(error))?;
                    continue;
                }
            };
            pending.extend(sorted(below, how).into_iter().rev());
        }
    }
    Ok(())
}

fn time_of(status: &Status, how: ListOptions) -> u64 {
    if how.by_access { status.accessed_ms } else { status.modified_ms }
}

fn sorted(mut entries: Vec<Status>, how: ListOptions) -> Vec<Status> {
    match how.sort_by {
        SortBy::Name => {}
        SortBy::Time => entries.sort_by_key(|status| Reverse(time_of(status, how))),
        SortBy::Size => entries.sort_by_key(|status| Reverse(status.length)),
    }
    if how.reversed {
        entries.reverse();
    }
    entries
}

fn show(entries: Vec<Status>, how: ListOptions, is_directory: bool, output: &mut Output<'_>) -> Result<()> {
    let entries = sorted(entries, how);
    if output.is_json() {
        return entries.iter().try_for_each(|status| output.object(status));
    }
    if is_directory && !how.paths_only && !entries.is_empty() {
        output.line(&format!("Found {} items", entries.len()))?;
    }
    lines(&entries, how).iter().try_for_each(|line| output.line(line))
}

/// The lines of entries, in the columns of Hadoop's shell.
fn lines(entries: &[Status], how: ListOptions) -> Vec<String> {
    let name = |status: &Status| {
        let is_hidden = |c: char| how.hide_unprintable && c.is_control();
        let shown: String = status.path.chars().map(|c| if is_hidden(c) { '?' } else { c }).collect();
        visible_name(&shown).into_owned()
    };
    if how.paths_only {
        return entries.iter().map(name).collect();
    }
    let copies = |status: &Status| match status.is_directory() {
        true => "-".to_owned(),
        false => status.replication.to_string(),
    };
    let policy = |status: &Status| match &status.policy {
        Some(policy) => policy.clone(),
        None => if status.is_directory() { "" } else { "Replicated" }.to_owned(),
    };
    let width =
        |least: usize, cell: &dyn Fn(&Status) -> usize| entries.iter().map(cell).fold(least, usize::max);
    let owner = width(0, &|status| status.owner.chars().count());
    let group = width(0, &|status| status.group.chars().count());
    let length = width(10, &|status| size(status.length, how.human).len());
    let copy = width(3, &|status| copies(status).len());
    let policies = width(0, &|status| policy(status).chars().count());
    let line = |status: &Status| {
        let kind = if status.is_directory() { 'd' } else { '-' };
        let acl = if status.has_acl { '+' } else { ' ' };
        let policy = if how.policies { format!("{:<policies$} ", policy(status)) } else { String::new() };
        format!(
            "{kind}{}{acl}{:>copy$} {:<owner$} {:<group$} {policy}{:>length$} {} {}",
            status.permissions(),
            copies(status),
            status.owner,
            status.group,
            size(status.length, how.human),
            local_minute(time_of(status, how)),
            name(status)
        )
    };
    entries.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::EntryKind;

    fn entry(path: &str, length: u64, modified_ms: u64) -> Status {
        Status {
            path: path.to_owned(),
            kind: if length == 0 { EntryKind::Directory } else { EntryKind::File },
            length,
            replication: 3,
            block_size: 128 << 20,
            owner: "ada".to_owned(),
            group: "supergroup".to_owned(),
            mode: 0o755,
            has_acl: false,
            modified_ms,
            accessed_ms: 0,
            policy: (length > 5000).then(|| "RS-6-3-1024k".to_owned()),
        }
    }

    fn without_times(lines: Vec<String>) -> Vec<String> {
        // Of the time zone of this machine.
        let cut = |line: String| {
            let at = line.find("1970-").or_else(|| line.find("1969-")).unwrap_or(line.len());
            let (before, time) = line.split_at(at);
            format!("{before}{}", time.get(16..).unwrap_or_default())
        };
        lines.into_iter().map(cut).collect()
    }

    #[test]
    fn columns_are_those_of_hadoop() {
        let with_acl = Status { has_acl: true, ..entry("/e", 1, 3) };
        let entries = [entry("/d", 0, 1), entry("/f\n", 123_456_789_012, 2), with_acl];
        let shown = without_times(lines(&entries, ListOptions::default()));
        assert_eq!(
            shown,
            [
                "drwxr-xr-x   - ada supergroup            0  /d",
                "-rwxr-xr-x   3 ada supergroup 123456789012  /f\\n",
                "-rwxr-xr-x+  3 ada supergroup            1  /e"
            ]
        );
        let how =
            ListOptions { human: true, policies: true, hide_unprintable: true, ..ListOptions::default() };
        assert_eq!(
            without_times(lines(&entries, how)),
            [
                "drwxr-xr-x   - ada supergroup                       0  /d",
                "-rwxr-xr-x   3 ada supergroup RS-6-3-1024k      115 G  /f?",
                "-rwxr-xr-x+  3 ada supergroup Replicated            1  /e"
            ]
        );
    }

    #[test]
    fn a_name_stays_on_its_line_and_does_nothing_to_the_terminal() {
        let entries = [entry("/a\n-rw-r--r--   3 root /forged \u{1b}[2J", 1, 0)];
        for paths_only in [false, true] {
            let shown = lines(&entries, ListOptions { paths_only, ..ListOptions::default() });
            assert!(shown[0].ends_with("/a\\n-rw-r--r--   3 root /forged \\u{1b}[2J"), "{shown:?}");
        }
    }

    #[test]
    fn entries_are_sorted_as_asked() {
        let entries = || vec![entry("/a", 1, 30), entry("/b", 3, 10), entry("/c", 2, 20)];
        let order = |sort_by, reversed| {
            let how = ListOptions { sort_by, reversed, ..ListOptions::default() };
            sorted(entries(), how).iter().map(|status| status.path[1..].to_owned()).collect::<String>()
        };
        assert_eq!((order(SortBy::Name, false), order(SortBy::Name, true)), ("abc".into(), "cba".into()));
        assert_eq!((order(SortBy::Time, false), order(SortBy::Time, true)), ("acb".into(), "bca".into()));
        assert_eq!((order(SortBy::Size, false), order(SortBy::Size, true)), ("bca".into(), "acb".into()));
    }
}
