//! Which grouping set is computed from which other.

use datafusion::physical_plan::aggregates::PhysicalGroupBy;

/// A grouping set, computed from the groups of another one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// Its keys, by their places among all.
    pub(super) keys: Vec<usize>,
    /// Levels that are computed from this one's groups, with the places of their keys among this one's.
    pub(super) children: Vec<(usize, Vec<usize>)>,
    /// The value of `__grouping_id`: a bit for each key, the last key's the lowest, set where it is not one of the set's.
    pub(super) id: u64,
}

/// The levels of grouping sets, the one of all keys first; those with more keys come before those with fewer. Each is computed from the
/// smallest one before it that has its keys. `None` where no set has all keys, or two are equal.
pub(crate) fn levels(group: &PhysicalGroupBy) -> Option<Vec<Level>> {
    let mut sets: Vec<&Vec<bool>> = group.groups().iter().collect();
    let keys = |set: &[bool]| set.iter().filter(|is_null| !**is_null).count();
    sets.sort_by_key(|set| std::cmp::Reverse(keys(set)));
    let is_whole = sets.first().is_some_and(|set| !set.is_empty() && keys(set) == set.len());
    let is_repeated = sets.iter().enumerate().any(|(at, set)| sets[..at].contains(set));
    if !is_whole || is_repeated {
        return None;
    }
    let mut levels: Vec<Level> = Vec::new();
    for set in sets {
        let level = Level {
            keys: (0..set.len()).filter(|key| !set[*key]).collect(),
            children: Vec::new(),
            id: set.iter().fold(0, |id, is_null| id << 1 | u64::from(*is_null)),
        };
        let at = levels.len();
        let parent = levels.iter_mut().rev().find_map(|parent| {
            let places =
                level.keys.iter().map(|key| parent.keys.binary_search(key).ok()).collect::<Option<_>>()?;
            Some((parent, places))
        });
        if let Some((parent, places)) = parent {
            parent.children.push((at, places));
        }
        levels.push(level);
    }
    Some(levels)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::Column;

    use super::*;

    /// The grouping sets of some of the keys 0, 1 and 2.
    fn sets(sets: &[&[usize]]) -> PhysicalGroupBy {
        let keys: Vec<_> = (0..3)
            .map(|key| (Arc::new(Column::new("k", key)) as Arc<dyn PhysicalExpr>, format!("k{key}")))
            .collect();
        let masks = sets.iter().map(|set| (0..3).map(|key| !set.contains(&key)).collect()).collect();
        PhysicalGroupBy::new(keys.clone(), keys, masks, true)
    }

    fn shown(group: &PhysicalGroupBy) -> Vec<String> {
        let levels = levels(group).unwrap();
        levels.iter().map(|level| format!("{:?} {} {:?}", level.keys, level.id, level.children)).collect()
    }

    #[test]
    fn each_level_of_a_rollup_follows_from_the_one_before() {
        let rollup = sets(&[&[], &[0], &[0, 1], &[0, 1, 2]]);
        let expected = ["[0, 1, 2] 0 [(1, [0, 1])]", "[0, 1] 1 [(2, [0])]", "[0] 3 [(3, [])]", "[] 7 []"];
        assert_eq!(shown(&rollup), expected);
    }

    #[test]
    fn sets_of_a_cube_follow_from_small_ones_with_their_keys() {
        let cube = sets(&[&[0, 1, 2], &[0, 1], &[0, 2], &[1, 2], &[0], &[1], &[2], &[]]);
        let levels = levels(&cube).unwrap();
        assert_eq!(levels[0].children, [(1, vec![0, 1]), (2, vec![0, 2]), (3, vec![1, 2])]);
        let children = levels.iter().flat_map(|level| &level.children);
        let mut computed: Vec<usize> = children.map(|(child, _)| *child).collect();
        computed.sort_unstable();
        assert_eq!(computed, (1..8).collect::<Vec<_>>(), "each but the first, once");
        for level in &levels {
            for (child, places) in &level.children {
                let keys: Vec<usize> = places.iter().map(|place| level.keys[*place]).collect();
                assert_eq!(keys, levels[*child].keys);
            }
        }
    }

    #[test]
    fn sets_that_have_not_all_keys_or_are_repeated_have_no_levels() {
        for group in [sets(&[&[0, 1], &[2]]), sets(&[&[0, 1, 2], &[0], &[0]]), sets(&[])] {
            assert_eq!(levels(&group), None);
        }
    }
}
