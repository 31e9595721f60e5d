//! Documented keys that are nearly the same as a given one.

use crate::table::Table;

/// The most letters by which a key may differ from a similar one.
const DISTANCE_MAX: usize = 3;

/// A documented key that is nearly the same.
pub fn similar(table: &Table, key: &str) -> Option<&'static str> {
    // A distance takes time in proportion to the product of two lengths.
    let len = key.chars().count();
    let near = table
        .settings()
        .iter()
        .filter(|setting| setting.key.len().abs_diff(len) <= DISTANCE_MAX)
        .filter(|setting| letters_apart(setting.key, key) <= DISTANCE_MAX);
    let distances = near.map(|setting| (strsim::levenshtein(setting.key, key), setting.key));
    distances.min().filter(|(distance, _)| *distance <= DISTANCE_MAX).map(|(_, key)| key)
}

/// Letters that one has and the other lacks, wherever they stand: never more than the edits between the two.
fn letters_apart(one: &str, other: &str) -> usize {
    let mut more = [0_isize; 64];
    let place = |letter: char| letter as usize % 64;
    one.chars().for_each(|letter| more[place(letter)] += 1);
    other.chars().for_each(|letter| more[place(letter)] -= 1);
    let ours: isize = more.iter().filter(|count| **count > 0).sum();
    let theirs: isize = more.iter().filter(|count| **count < 0).sum();
    ours.max(-theirs).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_compared_with_those_of_about_its_length() {
        let table = Table::parse("@a\nserver.master.port\t1\thonoured\t\n", &[]);
        let similar = |key| similar(&table, key);
        assert_eq!(similar("server.master.portxxx"), Some("server.master.port"));
        assert_eq!(similar("server.master.p"), Some("server.master.port"));
        assert_eq!(similar("server.mäster.pört"), Some("server.master.port"));
        assert_eq!(similar("server.master."), None);
    }

    proptest::proptest! {
        #[test]
        fn letters_apart_are_never_more_than_edits(one in ".{0,12}", other in "[a-c.]{0,12}", edit in ".{0,3}") {
            let near = format!("{edit}{one}");
            for (one, other) in [(&one, &other), (&one, &near), (&near, &other)] {
                proptest::prop_assert!(letters_apart(one, other) <= strsim::levenshtein(one, other));
            }
        }
    }
}
