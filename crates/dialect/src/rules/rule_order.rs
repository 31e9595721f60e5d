/// The place of a rule among those of DataFusion, which are known by their names.
#[derive(Clone)]
pub enum Step<R> {
    /// Before all of them, behind those that a table says before.
    First(fn() -> R),
    /// Directly before one.
    Before(&'static str, fn() -> R),
    /// Directly behind one.
    Behind(&'static str, fn() -> R),
    /// In the place of each of a name, which it runs in its way.
    Around(&'static str, fn(R) -> R),
    /// Behind all of them, and those that a table says before.
    Last(fn() -> R),
}

impl<R> Step<R> {
    /// The rule by itself; `None` for one that is around another.
    pub fn alone(&self) -> Option<R> {
        match self {
            Self::First(rule) | Self::Before(_, rule) | Self::Behind(_, rule) | Self::Last(rule) => {
                Some(rule())
            }
            Self::Around(..) => None,
        }
    }
}

/// DataFusion's rules and ours, in the order in which they run.
///
/// # Panics
/// If DataFusion has no rule of a name that a step says: the version is pinned, and a test runs each table.
pub fn in_order<R: Clone>(theirs: &[R], steps: &[Step<R>], name_of: impl Fn(&R) -> &str) -> Vec<R> {
    let mut rules = theirs.to_vec();
    let mut first = 0;
    let place = |rules: &[R], name: &str| {
        rules.iter().position(|rule| name_of(rule) == name).expect("DataFusion has a rule of this name")
    };
    for step in steps {
        match step {
            Step::First(rule) => {
                rules.insert(first, rule());
                first += 1;
            }
            Step::Before(name, rule) => rules.insert(place(&rules, name), rule()),
            Step::Behind(name, rule) => rules.insert(place(&rules, name) + 1, rule()),
            Step::Around(name, rule) => {
                for place in place(&rules, name)..rules.len() {
                    if name_of(&rules[place]) == *name {
                        rules[place] = rule(rules[place].clone());
                    }
                }
            }
            Step::Last(rule) => rules.push(rule()),
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_stands_where_its_step_says() {
        let steps = [
            Step::First(|| "a".to_owned()),
            Step::First(|| "b".to_owned()),
            Step::Before("y", || "c".to_owned()),
            Step::Around("x", |rule| format!("({rule})")),
            Step::Behind("y", || "f".to_owned()),
            Step::Last(|| "d".to_owned()),
            Step::Last(|| "e".to_owned()),
        ];
        let theirs = ["x".to_owned(), "y".to_owned(), "x".to_owned()];
        assert_eq!(in_order(&theirs, &steps, |rule| rule), ["a", "b", "(x)", "c", "y", "f", "(x)", "d", "e"]);
    }

    #[test]
    #[should_panic(expected = "DataFusion has a rule of this name")]
    fn a_place_that_is_not_there_is_no_place() {
        in_order(&["x".to_owned()], &[Step::Before("y", String::new)], |rule| rule);
    }
}
