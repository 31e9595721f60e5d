//! The rows of two sides joined by equal keys.

/// A pair of keys that are equal: how many distinct values each side has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::optimizer) struct Match {
    pub(in crate::optimizer) left: f64,
    pub(in crate::optimizer) right: f64,
}

/// The rows of an inner join by `keys`: each key of the side with fewer of them is one of the other's. Several keys together have no more
/// values than their side has rows.
pub(in crate::optimizer) fn joined_rows(left: f64, right: f64, keys: &[Match]) -> f64 {
    let (of_left, of_right) = distinct_keys(left, right, keys);
    left * right / of_left.max(of_right)
}

/// The share of rows of the left side whose keys are among those of the right side.
pub(in crate::optimizer) fn tested_share(left: f64, right: f64, keys: &[Match]) -> f64 {
    let (of_left, of_right) = distinct_keys(left, right, keys);
    (of_right / of_left).min(1.0)
}

fn distinct_keys(left: f64, right: f64, keys: &[Match]) -> (f64, f64) {
    let count = |rows: f64, distinct: f64| distinct.min(rows).max(1.0);
    let of_left = keys.iter().map(|key| key.left.max(1.0)).product();
    let of_right = keys.iter().map(|key| key.right.max(1.0)).product();
    (count(left, of_left), count(right, of_right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_finds_its_row_and_several_keys_do_not_find_less() {
        let key = Match { left: 100.0, right: 10.0 };
        assert_eq!(joined_rows(1000.0, 10.0, &[key]), 100.0);
        // An order and its line: 200 lines are in 1000, however many pairs of the two there might be.
        let keys = [Match { left: 500.0, right: 150.0 }, Match { left: 80.0, right: 60.0 }];
        assert_eq!(joined_rows(1000.0, 200.0, &keys), 200.0);
        assert_eq!(joined_rows(3.0, 4.0, &[]), 12.0);
        assert_eq!(joined_rows(0.0, 4.0, &[key]), 0.0);
        assert!(joined_rows(1e300, 1e300, &[key]) > 1e300);
    }

    #[test]
    fn a_test_keeps_the_share_of_keys_that_are_there() {
        let key = Match { left: 100.0, right: 10.0 };
        assert_eq!(tested_share(1000.0, 10.0, &[key]), 0.1);
        assert_eq!(tested_share(1000.0, 10.0, &[]), 1.0);
    }
}
