use std::collections::BTreeMap;
use std::fmt::Write;

/// What a check has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Directories.
    pub directories: u64,
    /// Files of whole replicas.
    pub replicated: FormTotals,
    /// Erasure-coded files.
    pub striped: FormTotals,
    /// Replicas that can be read, by the name of their storage's type.
    pub storage_types: BTreeMap<&'static str, u64>,
}

/// What a check has counted of files of one form. A block stands for a block group, too, and a replica for one of its units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormTotals {
    /// Bytes of closed files.
    pub bytes: u64,
    /// Closed files.
    pub files: u64,
    /// Bytes of files that clients write.
    pub open_bytes: u64,
    /// Files that clients write.
    pub open_files: u64,
    /// Blocks of files that clients write.
    pub open_blocks: u64,
    /// Blocks whose length is final.
    pub blocks: u64,
    /// Blocks that can be read.
    pub readable: u64,
    /// Blocks with more replicas than they are to have.
    pub over: u64,
    /// Blocks that can be read and have fewer replicas than they are to have.
    pub under: u64,
    /// Blocks whose replicas are where one failure takes too many.
    pub misplaced: u64,
    /// Files with a block that cannot be read.
    pub corrupt_files: u64,
    /// Blocks that cannot be read.
    pub missing: u64,
    /// Bytes of these.
    pub missing_bytes: u64,
    /// Blocks of which nothing but damaged replicas is there.
    pub corrupt: u64,
    /// Bytes of these.
    pub corrupt_bytes: u64,
    /// Replicas that are there.
    pub replicas: u64,
    /// Those of them on DataNodes that have left.
    pub decommissioned: u64,
    /// Those of them on DataNodes that are to leave.
    pub decommissioning: u64,
    /// Replicas that are wanted.
    pub wanted: u64,
    /// Replicas that blocks lack that can be read.
    pub missing_replicas: u64,
    /// Blocks that wait for a repair or are being repaired.
    pub queued: u64,
}

impl FormTotals {
    fn is_healthy(&self) -> bool {
        self.missing == 0 && self.corrupt == 0
    }

    fn unreadable(&self) -> u64 {
        self.blocks - self.readable
    }
}

/// Names of what is counted, as HDFS has them for files of one form, with the tabs behind them.
struct Words {
    block: &'static str,
    total: &'static str,
    open: &'static str,
    unreadable: &'static str,
    missing: &'static str,
    corrupt: &'static str,
    minimal: &'static str,
    over: &'static str,
    under: &'static str,
    misplaced: &'static str,
    average: &'static str,
    all_missing: &'static str,
    all_corrupt: &'static str,
    missing_replicas: &'static str,
    decommissioned: &'static str,
    decommissioning: &'static str,
}

const REPLICATED: Words = Words {
    block: "block",
    total: "Total blocks (validated)",
    open: "Total open file blocks (not validated)",
    unreadable: "UNDER MIN REPL'D BLOCKS",
    missing: "MISSING BLOCKS",
    corrupt: "CORRUPT BLOCKS",
    minimal: "Minimally replicated blocks",
    over: "Over-replicated blocks",
    under: "Under-replicated blocks",
    misplaced: "Mis-replicated blocks:\t",
    average: "Average block replication",
    all_missing: "Missing blocks",
    all_corrupt: "Corrupt blocks",
    missing_replicas: "Missing replicas:\t",
    decommissioned: "DecommissionedReplicas",
    decommissioning: "DecommissioningReplicas",
};

const STRIPED: Words = Words {
    block: "block group",
    total: "Total block groups (validated)",
    open: "Total open file block groups (not validated)",
    unreadable: "UNRECOVERABLE BLOCK GROUPS",
    missing: "MISSING BLOCK GROUPS",
    corrupt: "CORRUPT BLOCK GROUPS",
    minimal: "Minimally erasure-coded block groups",
    over: "Over-erasure-coded block groups",
    under: "Under-erasure-coded block groups",
    misplaced: "Unsatisfactory placement block groups:",
    average: "Average block group size",
    all_missing: "Missing block groups",
    all_corrupt: "Corrupt block groups",
    missing_replicas: "Missing internal blocks:",
    decommissioned: "Decommissioned internal blocks",
    decommissioning: "Decommissioning internal blocks",
};

impl Totals {
    /// The counts of files of one form.
    pub fn of_form(&mut self, is_striped: bool) -> &mut FormTotals {
        if is_striped { &mut self.striped } else { &mut self.replicated }
    }

    /// True if every block can be read.
    pub fn is_healthy(&self) -> bool {
        self.replicated.is_healthy() && self.striped.is_healthy()
    }

    /// The report, line by line in HDFS's words, which scripts look for.
    pub fn text(&self, datanodes: usize, racks: usize, replication: u16) -> String {
        let status = if self.is_healthy() { "HEALTHY" } else { "CORRUPT" };
        let directories = self.directories;
        let mut text = format!(
            "\nStatus: {status}\n Number of data-nodes:\t{datanodes}\n Number of racks:\t\t{racks}\n Total dirs:\t\t\t{directories}\n \
             Total symlinks:\t\t0\n\nReplicated Blocks:\n"
        );
        show(&mut text, &self.replicated, &REPLICATED, Some(replication));
        text += "\nErasure Coded Block Groups:\n";
        show(&mut text, &self.striped, &STRIPED, None);
        text
    }

    /// What is known of the types of storages. Nothing here says that a policy is kept: blocks are not placed by it.
    pub fn storage_types_text(&self) -> String {
        let types = self.storage_types.iter().map(|(name, count)| format!(" {name}:\t{count}\n"));
        format!(
            "\nReplicas by the type of their storage (blocks are not placed by storage policies):\n{}",
            types.collect::<String>()
        )
    }
}

fn show(text: &mut String, totals: &FormTotals, words: &Words, replication: Option<u16>) {
    let blocks = totals.blocks;
    let share = |count: u64| if blocks > 0 { percent(count, blocks) } else { String::new() };
    let _ = write!(text, " Total size:\t{} B", totals.bytes);
    if totals.open_bytes > 0 {
        let _ = write!(text, " (Total open files size: {} B)", totals.open_bytes);
    }
    let _ = write!(text, "\n Total files:\t{}", totals.files);
    if totals.open_files > 0 {
        let _ = write!(text, " (Files currently being written: {})", totals.open_files);
    }
    let _ = write!(text, "\n {}:\t{blocks}", words.total);
    if let Some(average) = totals.bytes.checked_div(blocks) {
        let _ = write!(text, " (avg. {} size {average} B)", words.block);
    }
    if totals.open_blocks > 0 {
        let _ = write!(text, " ({}: {})", words.open, totals.open_blocks);
    }
    let unreadable = totals.unreadable();
    if totals.corrupt_files > 0 || unreadable > 0 {
        *text += "\n  ********************************";
        if unreadable > 0 {
            let _ = write!(text, "\n  {}:\t{unreadable}{}", words.unreadable, share(unreadable));
            if replication.is_some() {
                *text += "\n  dfs.namenode.replication.min:\t1";
            }
        }
        if totals.corrupt_files > 0 {
            let _ = write!(text, "\n  CORRUPT FILES:\t{}", totals.corrupt_files);
            if totals.missing > 0 {
                let (missing, bytes) = (totals.missing, totals.missing_bytes);
                let _ = write!(text, "\n  {}:\t{missing}\n  MISSING SIZE:\t\t{bytes} B", words.missing);
            }
            if totals.corrupt > 0 {
                let (corrupt, bytes) = (totals.corrupt, totals.corrupt_bytes);
                let _ = write!(text, "\n  {}: \t{corrupt}\n  CORRUPT SIZE:\t\t{bytes} B", words.corrupt);
            }
        }
        *text += "\n  ********************************";
    }
    for (what, count) in [
        (format!("{}:", words.minimal), totals.readable),
        (format!("{}:", words.over), totals.over),
        (format!("{}:", words.under), totals.under),
        (words.misplaced.to_owned(), totals.misplaced),
    ] {
        let _ = write!(text, "\n {what}\t{count}{}", share(count));
    }
    if let Some(replication) = replication {
        let _ = write!(text, "\n Default replication factor:\t{replication}");
    }
    let average = if blocks > 0 { totals.replicas as f32 / blocks as f32 } else { 0.0 };
    let _ = write!(text, "\n {}:\t{average:?}", words.average);
    let _ = write!(
        text,
        "\n {}:\t\t{}\n {}:\t\t{}",
        words.all_missing, totals.missing, words.all_corrupt, totals.corrupt
    );
    let _ = write!(text, "\n {}\t{}", words.missing_replicas, totals.missing_replicas);
    if totals.replicas > 0 {
        *text += &percent(totals.missing_replicas, totals.wanted);
    }
    for (what, count) in
        [(words.decommissioned, totals.decommissioned), (words.decommissioning, totals.decommissioning)]
    {
        if count > 0 {
            let _ = write!(text, "\n {what}:\t{count}");
        }
    }
    let _ = writeln!(text, "\n Blocks queued for replication:\t{}", totals.queued);
}

/// A share as Java prints it.
fn percent(count: u64, of: u64) -> String {
    format!(" ({:?} %)", (count * 100) as f32 / of as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_lines_of_hdfs() {
        let mut totals = Totals { directories: 9, ..Totals::default() };
        *totals.of_form(false) = FormTotals {
            bytes: 1_473_244_853,
            files: 19,
            blocks: 39,
            readable: 39,
            under: 39,
            replicas: 78,
            wanted: 117,
            missing_replicas: 39,
            ..FormTotals::default()
        };
        // As HDFS 3.3.6 says it of such a cluster.
        let expected = "
Status: HEALTHY
 Number of data-nodes:\t2
 Number of racks:\t\t2
 Total dirs:\t\t\t9
 Total symlinks:\t\t0

Replicated Blocks:
 Total size:\t1473244853 B
 Total files:\t19
 Total blocks (validated):\t39 (avg. block size 37775509 B)
 Minimally replicated blocks:\t39 (100.0 %)
 Over-replicated blocks:\t0 (0.0 %)
 Under-replicated blocks:\t39 (100.0 %)
 Mis-replicated blocks:\t\t0 (0.0 %)
 Default replication factor:\t3
 Average block replication:\t2.0
 Missing blocks:\t\t0
 Corrupt blocks:\t\t0
 Missing replicas:\t\t39 (33.333332 %)
 Blocks queued for replication:\t0

Erasure Coded Block Groups:
 Total size:\t0 B
 Total files:\t0
 Total block groups (validated):\t0
 Minimally erasure-coded block groups:\t0
 Over-erasure-coded block groups:\t0
 Under-erasure-coded block groups:\t0
 Unsatisfactory placement block groups:\t0
 Average block group size:\t0.0
 Missing block groups:\t\t0
 Corrupt block groups:\t\t0
 Missing internal blocks:\t0
 Blocks queued for replication:\t0
";
        assert_eq!(totals.text(2, 2, 3), expected);
    }

    #[test]
    fn what_cannot_be_read_stands_between_the_stars() {
        let mut totals = Totals::default();
        *totals.of_form(true) = FormTotals {
            bytes: 30,
            files: 2,
            blocks: 3,
            readable: 1,
            corrupt_files: 1,
            missing: 1,
            missing_bytes: 10,
            corrupt: 1,
            corrupt_bytes: 12,
            replicas: 9,
            wanted: 27,
            ..FormTotals::default()
        };
        let text = totals.text(9, 1, 3);
        assert!(!totals.is_healthy() && text.starts_with("\nStatus: CORRUPT\n"));
        let expected = "
  ********************************
  UNRECOVERABLE BLOCK GROUPS:\t2 (66.666664 %)
  CORRUPT FILES:\t1
  MISSING BLOCK GROUPS:\t1
  MISSING SIZE:\t\t10 B
  CORRUPT BLOCK GROUPS: \t1
  CORRUPT SIZE:\t\t12 B
  ********************************
 Minimally erasure-coded block groups:\t1 (33.333332 %)
";
        assert!(text.contains(expected), "{text}");
    }
}
