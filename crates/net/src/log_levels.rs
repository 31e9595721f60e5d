//! Levels of the log, which may be changed while a server runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tracing::level_filters::LevelFilter;

/// Name of the logger that all others are below.
pub const ROOT_LOGGER: &str = "root";

/// Most loggers with levels of their own.
const LOGGERS_MAX: usize = 64;
/// Most characters of a logger's name.
const NAME_CHARS_MAX: usize = 128;

/// Levels of loggers: that of the root, and those of modules, such as `yeoul_net::http`, whose level is another one.
#[derive(Clone)]
pub struct LogLevels(Arc<Inner>);

struct Inner {
    levels: Mutex<BTreeMap<String, LevelFilter>>,
    apply: OnceLock<Apply>,
}

/// What makes levels count.
type Apply = Box<dyn Fn(&BTreeMap<String, LevelFilter>) + Send + Sync>;

/// The reason why a level is not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelRefused(String);

impl LogLevels {
    /// This level for all.
    pub fn new(root: LevelFilter) -> Self {
        let levels = Mutex::new(BTreeMap::from([(ROOT_LOGGER.to_owned(), root)]));
        Self(Arc::new(Inner { levels, apply: OnceLock::new() }))
    }

    /// Has the levels given to `apply`, now and when they change. Only the first such function is.
    pub fn applied_by(&self, apply: impl Fn(&BTreeMap<String, LevelFilter>) + Send + Sync + 'static) {
        let levels = self.levels();
        let apply = self.0.apply.get_or_init(|| Box::new(apply));
        apply(&levels);
    }

    /// The loggers that have levels, by their names.
    pub fn all(&self) -> Vec<(String, &'static str)> {
        self.levels().iter().map(|(name, level)| (name.clone(), level_name(*level))).collect()
    }

    /// Sets the level of a logger: `OFF`, `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`, or log4j's `FATAL` and `ALL`, in any case.
    ///
    /// # Errors
    /// For another level, a name that no module can have, and too many names.
    pub fn set(&self, name: &str, level: &str) -> Result<(), LevelRefused> {
        let level = match level.to_ascii_uppercase().as_str() {
            "OFF" => LevelFilter::OFF,
            "FATAL" | "ERROR" => LevelFilter::ERROR,
            "WARN" => LevelFilter::WARN,
            "INFO" => LevelFilter::INFO,
            "DEBUG" => LevelFilter::DEBUG,
            "TRACE" | "ALL" => LevelFilter::TRACE,
            other => {
                let expected = "OFF, ERROR, WARN, INFO, DEBUG or TRACE";
                return Err(LevelRefused(format!("unknown level `{other:.40}`: expected {expected}")));
            }
        };
        let is_named = |name: &str| {
            let is_part = |character: char| character.is_ascii_alphanumeric() || "_:".contains(character);
            !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(is_part)
        };
        if !is_named(name) {
            let expected = "expected `root` or a module such as `yeoul_net::http`";
            return Err(LevelRefused(format!("`{name:.40}` is no logger: {expected}")));
        }
        let mut levels = self.levels();
        if !levels.contains_key(name) && levels.len() >= LOGGERS_MAX {
            return Err(LevelRefused(format!("{LOGGERS_MAX} loggers have levels, and there are no more")));
        }
        levels.insert(name.to_owned(), level);
        if let Some(apply) = self.0.apply.get() {
            apply(&levels);
        }
        Ok(())
    }

    fn levels(&self) -> MutexGuard<'_, BTreeMap<String, LevelFilter>> {
        self.0.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Name of a level, as log4j writes it.
fn level_name(level: LevelFilter) -> &'static str {
    match level.into_level() {
        None => "OFF",
        Some(level) => level.as_str(),
    }
}

/// Two are equal if a change of one is one of the other.
impl PartialEq for LogLevels {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LogLevels {}

impl fmt::Debug for LogLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogLevels").field(&self.all()).finish()
    }
}

impl fmt::Display for LevelRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LevelRefused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_count_as_soon_as_they_are_set_and_others_are_refused() {
        let levels = LogLevels::new(LevelFilter::INFO);
        let applied = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&applied);
        levels.applied_by(move |levels| told.lock().unwrap().push(levels.clone()));
        levels.set("yeoul_net::http", "debug").unwrap();
        levels.set(ROOT_LOGGER, "FATAL").unwrap();
        let all = [(ROOT_LOGGER.to_owned(), "ERROR"), ("yeoul_net::http".to_owned(), "DEBUG")];
        assert_eq!(levels.all(), all);
        let last = applied.lock().unwrap().last().cloned().unwrap();
        let expected = [LevelFilter::ERROR, LevelFilter::DEBUG];
        assert_eq!(last.into_values().collect::<Vec<_>>(), expected);
        assert_eq!(applied.lock().unwrap().len(), 3, "at first, and at each change");
        for (name, level) in [("root", "LOUD"), ("", "INFO"), ("a,b=trace", "INFO"), ("a b", "INFO")] {
            assert!(levels.set(name, level).is_err(), "{name} {level}");
        }
        assert!(levels.set(&"a".repeat(NAME_CHARS_MAX + 1), "INFO").is_err());
        (2..LOGGERS_MAX).for_each(|at| levels.set(&format!("m{at}"), "OFF").unwrap());
        assert!(levels.set("one_more", "OFF").is_err());
        levels.set("m2", "WARN").unwrap();
        assert_eq!(levels.all().len(), LOGGERS_MAX);
    }
}
