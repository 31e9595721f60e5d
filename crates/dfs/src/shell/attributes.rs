use super::Output;
use crate::client::{EntryKind, FileSystem, Status};
use crate::display::utc_second;
use crate::error::{Error, Kind, Result};

/// Shows attributes of paths by a format of Hadoop's `-stat`: `%a` mode in octal, `%A` as `ls` shows it, `%b` bytes, `%F` what it
/// is, `%g` group, `%n` name, `%o` bytes of a block, `%r` copies, `%u` owner, `%x` and `%X` time of the last read, `%y` and `%Y` of the
/// last change.
///
/// # Errors
/// The format has another letter, or the output takes no more.
pub async fn show_attributes(
    files: &FileSystem,
    paths: &[String],
    format: &str,
    output: &mut Output<'_>,
) -> Result<()> {
    check(format)?;
    for path in paths {
        let shown = show(files, path, format, output).await;
        output.go_on(shown)?;
    }
    Ok(())
}

async fn show(files: &FileSystem, path: &str, format: &str, output: &mut Output<'_>) -> Result<()> {
    for status in files.expand(&files.path(path)?).await? {
        if output.is_json() {
            output.object(&status)?;
        } else {
            output.line(&filled(format, &status))?;
        }
    }
    Ok(())
}

const LETTERS: &str = "aAbFgnoruxXyY%";

fn check(format: &str) -> Result<()> {
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c == '%' {
            let letter = chars.next();
            if letter.is_none_or(|letter| !LETTERS.contains(letter)) {
                let letter = letter.map_or_else(String::new, String::from);
                let message = format!("'%{letter}' is not known in a format of -stat");
                let hint = "there are %a %A %b %F %g %n %o %r %u %x %X %y %Y and %%";
                return Err(Error::new(Kind::Invalid, message).with_hint(hint));
            }
        }
    }
    Ok(())
}

fn filled(format: &str, status: &Status) -> String {
    let mut text = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        match chars.next().unwrap_or('%') {
            'a' => text.push_str(&format!("{:o}", status.mode)),
            'A' => text.push_str(&status.permissions()),
            'b' => text.push_str(&status.length.to_string()),
            'F' => text.push_str(match status.kind {
                EntryKind::File => "regular file",
                EntryKind::Directory => "directory",
                EntryKind::Symlink => "symlink",
            }),
            'g' => text.push_str(&status.group),
            'n' => text.push_str(status.path.rsplit('/').next().unwrap_or_default()),
            'o' => text.push_str(&status.block_size.to_string()),
            'r' => text.push_str(&status.replication.to_string()),
            'u' => text.push_str(&status.owner),
            'x' => text.push_str(&utc_second(status.accessed_ms)),
            'X' => text.push_str(&status.accessed_ms.to_string()),
            'y' => text.push_str(&utc_second(status.modified_ms)),
            'Y' => text.push_str(&status.modified_ms.to_string()),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_filled_or_refused() {
        let status = Status {
            path: "/a/b.csv".to_owned(),
            kind: EntryKind::File,
            length: 7,
            replication: 2,
            block_size: 1 << 20,
            owner: "ada".to_owned(),
            group: "crew".to_owned(),
            mode: 0o640,
            has_acl: false,
            modified_ms: 1_700_000_000_000,
            accessed_ms: 5,
            policy: None,
        };
        check("%a %A %b %F").unwrap();
        assert_eq!(filled("%a %A %b %F", &status), "640 rw-r----- 7 regular file");
        assert_eq!(filled("%g:%n:%o:%r:%u %%", &status), "crew:b.csv:1048576:2:ada %");
        assert_eq!(filled("%y %Y %X", &status), "2023-11-14 22:13:20 1700000000000 5");
        for format in ["%", "%z", "a%"] {
            assert_eq!(check(format).unwrap_err().kind(), Kind::Invalid, "{format}");
        }
    }
}
