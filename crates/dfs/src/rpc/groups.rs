use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::process::Command;
use tracing::warn;

/// How long the groups of a user are taken from memory, as in HDFS (`hadoop.security.groups.cache.secs`).
const KEPT: Duration = Duration::from_secs(300);
/// Users whose groups are kept.
const USERS_MAX: usize = 10_000;
/// How long the system may take to name a user's groups.
const LOOKUP_MAX: Duration = Duration::from_secs(10);

/// The groups of users, as this host knows them: asked of `id`, which knows every source that the system has.
#[derive(Clone, Debug, Default)]
pub struct Groups(Arc<Mutex<Known>>);

/// The groups of users, and when they were asked for.
type Known = HashMap<String, (Instant, Vec<String>)>;

impl Groups {
    /// The groups of a user; none for one that this host does not know.
    pub async fn of(&self, user: &str) -> Vec<String> {
        if let Some(known) = self.known(user) {
            return known;
        }
        let groups = match lookup(user).await {
            Ok(groups) => groups,
            Err(error) => {
                warn!(user, %error, "cannot find out the groups of a user");
                return Vec::new();
            }
        };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= USERS_MAX {
            kept.clear();
        }
        kept.insert(user.to_owned(), (Instant::now(), groups.clone()));
        groups
    }

    /// Forgets what the system said, so that it is asked again.
    pub fn forget_all(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn known(&self, user: &str) -> Option<Vec<String>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, groups) = kept.get(user)?;
        (since.elapsed() < KEPT).then(|| groups.clone())
    }
}

async fn lookup(user: &str) -> std::io::Result<Vec<String>> {
    let mut id = Command::new("id");
    id.args(["-Gn", "--", user]).kill_on_drop(true);
    let output = tokio::time::timeout(LOOKUP_MAX, id.output()).await??;
    // A user that is unknown here has no groups, which is no failure.
    Ok(String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect())
}

/// The user whose process this is.
pub async fn process_user() -> String {
    let output = Command::new("id").arg("-un").output().await;
    let name =
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if name.is_empty() { "yeoul".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_groups_are_those_that_the_system_names() {
        let groups = Groups::default();
        assert_eq!(groups.of("root").await.first().map(String::as_str), Some("root"));
        assert!(groups.known("root").is_some());
        groups.clone().forget_all();
        assert!(groups.known("root").is_none());
        assert_eq!(groups.of("no-such-user-here").await, Vec::<String>::new());
        assert_eq!(groups.of("--help").await, Vec::<String>::new(), "a name is no option");
    }
}
